/* SPDX-License-Identifier: MIT */
#include "engine/compile/worker_wire.h"
#include "common/base/fs.h"
#include "common/protocol/limits.h"
#include "engine/compile/worker_log.h"
#include "engine/compile/worker_packet.h"
#include "tests/support/test.h"
#include "tests/support/test_descriptors.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

struct fixture {
    int daemon_fd;
    int worker_fd;
    struct kiln_err err;
};

SET_UP(set_up) { test_socket_pair(SOCK_SEQPACKET, &f->daemon_fd, &f->worker_fd); }

FIXTURE(connected, set_up, NULL);

static struct compile_job some_job(void)
{
    return (struct compile_job){ .kind = COMPILE_PROBE,
                                 .toolchain = bytes_of_text("hiprtc"),
                                 .target = bytes_of_text("gfx90a"),
                                 .program = bytes_of_text("k.cl"),
                                 .options = bytes_of_text("-DA"),
                                 .source = bytes_of("a\0b", 3),
                                 .header_count = 2,
                                 .headers = bytes_of_text("records") };
}

static void send_bytes(struct fixture *f, const void *bytes, size_t size)
{
    assert_int_equal(send(f->worker_fd, bytes, size, 0), size);
}

static enum kiln_code receive(struct fixture *f, enum worker_message *message,
                              struct worker_result *collected)
{
    return worker_receive(f->daemon_fd, message, collected, &f->err);
}

static void receive_job(struct fixture *f, int fds[WORKER_JOB_FILES])
{
    uint8_t packet[8];
    struct iovec part = { packet, sizeof(packet) };
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * WORKER_JOB_FILES)];
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    assert_int_equal(recvmsg(f->worker_fd, &m, MSG_CMSG_CLOEXEC), 1);
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int) * WORKER_JOB_FILES);
}

static struct worker_files new_files(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct worker_files files;
    must(fs_memfd("object", &files.object_fd, &err), err);
    must(fs_memfd("log", &files.log_fd, &err), err);
    return files;
}

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

TEST_F(connected, a_job_arrives_as_it_was_sent)
{
    struct compile_job sent = some_job(), got;
    struct worker_files files;
    int fds[WORKER_JOB_FILES];
    must(worker_send_job(f->daemon_fd, &sent, &files, &f->err), f->err);
    receive_job(f, fds);
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, WORKER_JOB_MAX);
    must(fs_read_fd(fds[0], WORKER_JOB_MAX, &content, &f->err), f->err);
    must(worker_job_read(buffer_view(&content), &got, &f->err), f->err);
    assert_true(fs_is_sealed(fds[0]));
    assert_int_equal(got.kind, sent.kind);
    assert_true(bytes_equal(got.source, sent.source));
    assert_true(bytes_equal(got.headers, sent.headers));
    assert_int_equal(got.header_count, 2);
    for (int i = 0; i < WORKER_JOB_FILES; i++)
        close(fds[i]);
    close(files.object_fd);
    close(files.log_fd);
}

TEST_F(connected, a_job_cut_anywhere_is_refused)
{
    struct compile_job job = some_job(), got;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 4096);
    worker_job_write(&b, &job);
    for (size_t size = 0; size < b.size; size++)
        assert_int_equal(worker_job_read(bytes_of(b.data, size), &got, &f->err), KILN_INVALID);
    buffer_put_u8(&b, 0);
    assert_int_equal(worker_job_read(buffer_view(&b), &got, &f->err), KILN_INVALID);
}

TEST_F(connected, sending_to_a_worker_that_is_gone_is_unavailable)
{
    struct compile_job job = some_job();
    struct worker_files files;
    fd_close(&f->worker_fd);
    assert_int_equal(worker_send_job(f->daemon_fd, &job, &files, &f->err), KILN_UNAVAILABLE);
    assert_says(f->err.text, "has ended");
}

TEST_F(connected, receiving_does_not_wait)
{
    enum worker_message message;
    struct worker_result collected;
    assert_int_equal(receive(f, &message, &collected), KILN_BUSY);
}

TEST_F(connected, a_closed_socket_is_unavailable)
{
    enum worker_message message;
    struct worker_result collected;
    fd_close(&f->worker_fd);
    assert_int_equal(receive(f, &message, &collected), KILN_UNAVAILABLE);
}

TEST_F(connected, ready_and_result_are_reported_apart)
{
    enum worker_message message;
    struct worker_result collected, sent = { .end = COMPILE_MEMORY, .text = "why", .cpu_ns = 5 };
    BUFFER_AUTO struct buffer ready, b;
    buffer_init(&ready, WORKER_PACKET_MAX);
    const struct sandbox_report sandbox = { .has = LAYERS_ALL & ~(1u << LAYER_network),
                                            .landlock = 7,
                                            .why = "network: not\there" };
    worker_ready_write(&ready, &sandbox);
    buffer_init(&b, WORKER_PACKET_MAX);
    worker_result_write(&b, &sent);
    send_bytes(f, ready.data, ready.size);
    send_bytes(f, b.data, b.size);
    must(receive(f, &message, &collected), f->err);
    assert_int_equal(message, WORKER_READY);
    assert_int_equal(collected.sandbox.has, sandbox.has);
    assert_int_equal(collected.sandbox.landlock, 7);
    assert_string_equal(collected.sandbox.why, "network: not here");
    must(receive(f, &message, &collected), f->err);
    assert_int_equal(message, WORKER_RESULT);
    assert_int_equal(collected.end, COMPILE_MEMORY);
    assert_string_equal(collected.text, "why");
    assert_int_equal(collected.cpu_ns, 5);
}

TEST_F(connected, packets_that_are_no_message_are_refused)
{
    enum worker_message message;
    struct worker_result collected;
    static const struct {
        uint8_t bytes[24];
        size_t size;
    } bad[] = {
        { { 0 }, 1 },
        { { 9 }, 1 },
        { { WORKER_READY }, 1 },
        { { WORKER_READY, 1 }, 2 },
        /* a reason longer than the rest of the message */
        { { WORKER_READY, [9] = 1 }, 13 },
        { { WORKER_READY, 0xff, 0xff }, 13 },          /* unknown layers */
        { { WORKER_READY }, 13 },                      /* layers are missing, without a reason */
        { { WORKER_READY, [9] = 1, [13] = 'x' }, 15 }, /* more bytes than announced */
        { { WORKER_RESULT }, 1 },
        { { WORKER_RESULT, COMPILE_OUTDATED + 1 }, 22 },
        { { WORKER_RESULT, 0 }, 23 },
        { { WORKER_RESULT, 0, [18] = 200 }, 22 },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        send_bytes(f, bad[i].bytes, bad[i].size);
        assert_int_equal(receive(f, &message, &collected), KILN_INVALID);
    }
}

TEST_F(connected, a_handshake_that_makes_no_sense_is_refused)
{
    static char long_text[LAYERS_TEXT_MAX + 1];
    memset(long_text, 'x', LAYERS_TEXT_MAX);
    const struct {
        uint32_t has, landlock;
        const char *why;
    } bad[] = {
        { LAYERS_ALL, 7, "and yet" },     { LAYERS_ALL, 0, "" }, { LAYERS_ALL << 1, 7, "x" },
        { 1u << LAYER_landlock, 0, "x" }, { 0, 7, "" },          { 0, 7, long_text },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum worker_message message;
        struct worker_result collected;
        BUFFER_AUTO struct buffer b;
        buffer_init(&b, WORKER_PACKET_MAX);
        buffer_put_u8(&b, WORKER_READY);
        buffer_put_u32(&b, bad[i].has);
        buffer_put_u32(&b, bad[i].landlock);
        buffer_put_sized(&b, bytes_of_text(bad[i].why));
        buffer_put_sized(&b, bytes_of_text(KILN_VERSION));
        send_bytes(f, b.data, b.size);
        assert_int_equal(receive(f, &message, &collected), KILN_INVALID);
        assert_says(f->err.text, "damaged handshake");
    }
}

TEST_F(connected, a_handshake_of_another_release_is_refused)
{
    static const struct sandbox_report sandbox = { .has = LAYERS_ALL, .landlock = 7 };
    enum worker_message message;
    struct worker_result collected;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, WORKER_PACKET_MAX);
    worker_ready_write(&b, &sandbox);
    send_bytes(f, b.data, b.size);
    must(receive(f, &message, &collected), f->err);

    b.data[b.size - 1]++;
    send_bytes(f, b.data, b.size);
    assert_int_equal(receive(f, &message, &collected), KILN_INVALID);
    assert_says(f->err.text, KILN_VERSION);

    /* the handshake of an older worker, which does not contain its release */
    b.size -= 4 + strlen(KILN_VERSION);
    send_bytes(f, b.data, b.size);
    assert_int_equal(receive(f, &message, &collected), KILN_INVALID);
    assert_says(f->err.text, "damaged handshake");
}

TEST_F(connected, control_characters_in_a_message_become_blanks)
{
    enum worker_message message;
    struct worker_result collected, sent = { .end = COMPILE_REFUSED, .text = "a\n\x1b[31mb" };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, WORKER_PACKET_MAX);
    worker_result_write(&b, &sent);
    send_bytes(f, b.data, b.size);
    must(receive(f, &message, &collected), f->err);
    assert_string_equal(collected.text, "a  [31mb");
}

TEST(plain, a_finished_object_is_sealed)
{
    struct worker_files files = new_files();
    struct worker_result collected = { .end = COMPILE_DONE, .cpu_ns = 7, .peak_rss = 8 };
    struct compile_result result;
    put(files.object_fd, "object");
    put(files.log_fd, "warning\n");
    worker_collect(&files, COMPILE_CRASHED, NULL, &collected, &result);
    assert_int_equal(result.end, COMPILE_DONE);
    assert_int_equal(result.err.code, KILN_OK);
    assert_true(fs_is_sealed(result.object_fd));
    assert_string_equal(result.log, "warning\n");
    assert_int_equal(result.cpu_ns, 7);
    assert_int_equal(files.object_fd, -1);
    compile_result_done(&result);
}

TEST(plain, an_object_that_is_still_mapped_for_writing_is_not_taken)
{
    struct worker_files files = new_files();
    struct worker_result collected = { .end = COMPILE_DONE };
    struct compile_result result;
    put(files.object_fd, "object");
    void *held = mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_SHARED, files.object_fd, 0);
    assert_ptr_not_equal(held, MAP_FAILED);
    worker_collect(&files, COMPILE_DONE, NULL, &collected, &result);
    assert_int_equal(result.end, COMPILE_CRASHED);
    assert_int_equal(result.err.code, KILN_COMPILE_FAILED);
    assert_int_equal(result.object_fd, -1);
    munmap(held, 6);
    compile_result_done(&result);
}

TEST(plain, an_object_beyond_the_limit_is_not_taken)
{
    struct worker_files files = new_files();
    struct worker_result collected = { .end = COMPILE_DONE };
    struct compile_result result;
    assert_int_equal(ftruncate(files.object_fd, (off_t)LIMIT_CODE_OBJECT + 1), 0);
    worker_collect(&files, COMPILE_DONE, NULL, &collected, &result);
    assert_int_equal(result.end, COMPILE_OUTPUT);
    assert_int_equal(result.object_fd, -1);
    compile_result_done(&result);
}

TEST(plain, the_log_of_a_worker_that_died_is_kept)
{
    struct worker_files files = new_files();
    struct compile_result result;
    put(files.log_fd, "last words\n");
    worker_collect(&files, COMPILE_CRASHED, "died of SIGABRT", NULL, &result);
    assert_int_equal(result.end, COMPILE_CRASHED);
    assert_int_equal(result.err.code, KILN_COMPILE_FAILED);
    assert_string_equal(result.err.text, "died of SIGABRT");
    assert_string_equal(result.log, "last words\n");
    compile_result_done(&result);
}

TEST(plain, an_absent_toolchain_is_unavailable_and_not_a_failed_compile)
{
    struct worker_files files = new_files();
    struct worker_result collected = { .end = COMPILE_UNAVAILABLE, .text = "no hiprtc" };
    struct compile_result result;
    worker_collect(&files, COMPILE_CRASHED, NULL, &collected, &result);
    assert_int_equal(result.err.code, KILN_UNAVAILABLE);
    assert_string_equal(result.err.text, "no hiprtc");
    assert_null(result.log);
    compile_result_done(&result);
}

TEST(plain, a_long_log_loses_its_middle)
{
    struct worker_files files = new_files();
    struct compile_result result;
    put(files.log_fd, "first\n");
    assert_int_equal(ftruncate(files.log_fd, 1 << 20), 0);
    assert_int_equal(lseek(files.log_fd, 0, SEEK_END), 1 << 20);
    put(files.log_fd, "last\n");
    worker_collect(&files, COMPILE_REFUSED, "no", NULL, &result);
    size_t length = strlen(result.log);
    assert_true(length <= LIMIT_COMPILE_LOG);
    assert_int_equal(strncmp(result.log, "first\n", 6), 0);
    assert_string_equal(result.log + length - 5, "last\n");
    assert_says(result.log, "bytes omitted");
    compile_result_done(&result);
}

TEST(plain, the_last_lines_of_a_log_report_why_a_compiler_died)
{
    const char *text = "as it was";
    assert_int_equal(worker_log_cause(NULL, COMPILE_CRASHED, &text), COMPILE_CRASHED);
    assert_int_equal(worker_log_cause("Stack dump:\n", COMPILE_CRASHED, &text), COMPILE_CRASHED);
    assert_string_equal(text, "as it was");
    assert_int_equal(worker_log_cause("LLVM ERROR: out of memory\n", COMPILE_CRASHED, &text),
                     COMPILE_MEMORY);
    assert_int_equal(worker_log_cause("error: File too large", COMPILE_CRASHED, &text),
                     COMPILE_OUTPUT);
    assert_says(text, "compile_output");
}

TEST(plain, a_stack_dump_does_not_hide_what_llvm_gave_up_for)
{
    char log[4096] = "";
    const char *text = "as it was";
    static const char end[] = "clang: error: clang frontend command failed due to signal\n";
    for (int i = 0; i < 40; i++)
        strcat(log, " #1 0x00007fefc50b5070 llvm::sys::RunSignalHandlers() (libLLVM.so)\n");
    strcat(log, end);
    char quoted[4200], said[4200];
    snprintf(quoted, sizeof(quoted), "    1 | LLVM ERROR: out of memory\n%s", log);
    snprintf(said, sizeof(said), "k.cpp:1:1: warning: x\nLLVM ERROR: out of memory\n%s", log);

    assert_int_equal(worker_log_cause(quoted, COMPILE_CRASHED, &text), COMPILE_CRASHED);
    assert_string_equal(text, "as it was");
    assert_int_equal(worker_log_cause(said, COMPILE_CRASHED, &text), COMPILE_MEMORY);
    assert_says(text, "setting compile_memory");

    snprintf(said, sizeof(said), "LLVM ERROR: broken\nout of memory\n%s", log);
    assert_int_equal(worker_log_cause(said, COMPILE_CRASHED, &text), COMPILE_CRASHED);
}
