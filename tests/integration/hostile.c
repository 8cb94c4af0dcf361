/* SPDX-License-Identifier: MIT */
/* kilnd must refuse bad input, count it, not grow, and serve its other clients. */
#include "tests/support/raw_client.h"
#include "tests/support/roots_own_file.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    struct daemon_process daemon;
    int bystander;
};

SET_UP(set_up) { raw_serve(&f->daemon, NULL, &f->bystander); }

FIXTURE(hostile, set_up, NULL);

static long resident_kb(const struct fixture *f)
{
    return daemon_process_memory(&f->daemon, "VmRSS");
}

TEST_F(hostile, bytes_that_are_not_a_frame_close_the_connection)
{
    int fd = raw_connect(&f->daemon);
    raw_send(fd, "GET / HTTP/1.1\r\nHost: kiln\r\n\r\n", 30);
    raw_expect_closed(fd);
    close(fd);
    raw_expect_pong(f->bystander);
    assert_true(daemon_stat(&f->daemon, "protocol_errors") >= 1);
}

TEST_F(hostile, a_frame_that_claims_too_much_is_refused_before_its_body)
{
    struct frame_header h = { .version = 1, .type = MESSAGE_ping, .body_size = 0xfffffff0u };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    int fd = raw_greeted(&f->daemon);
    raw_send(fd, raw, sizeof(raw));
    raw_expect_closed(fd);
    close(fd);
    raw_expect_pong(f->bystander);
}

TEST_F(hostile, half_a_frame_and_a_hang_up_harm_nobody)
{
    struct frame_header h = { .version = 1, .type = MESSAGE_fetch, .body_size = 36 };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    for (size_t size = 1; size < sizeof(raw); size += 5) {
        int fd = raw_greeted(&f->daemon);
        raw_send(fd, raw, size);
        close(fd);
    }
    int fd = raw_greeted(&f->daemon);
    raw_send(fd, raw, sizeof(raw));
    raw_send(fd, "only some of the body", 10);
    close(fd);
    raw_expect_pong(f->bystander);
}

TEST_F(hostile, an_unknown_request_is_answered_and_the_connection_lives)
{
    raw_send_frame(f->bystander, 4242, 7, bytes_of_text("what"));
    raw_expect_error(f->bystander, KILN_INVALID, "4242");
    raw_expect_pong(f->bystander);
}

TEST_F(hostile, a_client_of_an_unknown_protocol_version_is_refused)
{
    struct message_hello m = { .oldest_version = 200, .newest_version = 201 };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    message_hello_write(&b, &m);
    int fd = raw_connect(&f->daemon);
    raw_send_frame(fd, MESSAGE_hello, 1, buffer_view(&b));
    raw_expect_error(fd, KILN_UNSUPPORTED, "200");
    raw_expect_closed(fd);
    close(fd);
}

TEST_F(hostile, a_path_as_an_option_is_refused_by_name)
{
    static struct raw_frame frame;
    static const struct {
        const char *options, *named;
    } bad[] = {
        { "-I/etc", "'-I/etc'" },
        { "-O3 -include /etc/shadow", "'-include'" },
        { "@/etc/passwd", "'@/etc/passwd'" },
        { "-o/tmp/x", "'-o/tmp/x'" },
        { "-DN=1 -fplugin=/tmp/evil.so", "'-fplugin=/tmp/evil.so'" },
        { "/etc/shadow", "'/etc/shadow'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[512];
        raw_send_source(f->bystander, 5, "gfx90a", bad[i].options, bytes_of_text("source"));
        assert_true(raw_receive(f->bystander, &frame));
        assert_int_equal(raw_refusal(&frame, text), KILN_DENIED);
        assert_says(text, bad[i].named);
    }
    assert_int_equal(daemon_stat(&f->daemon, "compiles"), 0);
}

TEST_F(hostile, a_hundred_megabytes_of_source_are_refused_without_growth)
{
    long before = resident_kb(f);
    size_t size = 100u << 20;
    char *source = malloc(size);
    assert_non_null(source);
    memset(source, ' ', size);
    int fd = raw_greeted(&f->daemon);
    struct frame_header h = { .version = 1,
                              .type = MESSAGE_fetch_source,
                              .body_size = (uint32_t)size };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    raw_send(fd, raw, sizeof(raw));
    while (send(fd, source, 1u << 20, MSG_NOSIGNAL) > 0)
        ;
    raw_expect_closed(fd);
    close(fd);
    free(source);
    raw_expect_pong(f->bystander);
    assert_true(resident_kb(f) - before < 20000);
}

TEST_F(hostile, a_client_that_never_reads_is_bounded_and_delays_nobody)
{
    long before = resident_kb(f);
    int fd = raw_greeted(&f->daemon);
    static const uint8_t filler[4000];
    struct message_ping m = { .payload = bytes_of(filler, sizeof(filler)) };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 5000);
    message_ping_write(&b, &m);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    struct frame_header h = { .version = 1, .type = MESSAGE_ping, .body_size = (uint32_t)b.size };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    BUFFER_AUTO struct buffer frame;
    buffer_init(&frame, 10000);
    buffer_put(&frame, raw, sizeof(raw));
    buffer_put(&frame, b.data, b.size);
    /* Sends up to 400 MB of pings without reading the answers. kilnd must stop reading long
     * before that. */
    size_t sent = 0;
    for (int quiet = 0; quiet < 20 && sent < (400u << 20);) {
        ssize_t put = send(fd, frame.data, frame.size, MSG_NOSIGNAL);
        if (put > 0) {
            sent += (size_t)put;
            if ((size_t)put != frame.size)
                break;
            continue;
        }
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        quiet += poll(&p, 1, 50) == 0;
    }
    raw_expect_pong(f->bystander);
    assert_true(sent < (100u << 20));
    assert_true(resident_kb(f) - before < 40000);
    close(fd);
    raw_expect_pong(f->bystander);
}

TEST_F(hostile, a_request_sent_byte_by_byte_is_served)
{
    static struct raw_frame frame;
    struct message_ping m = { .payload = bytes_of_text("slow") };
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    struct frame_header h = { .version = 1, .type = MESSAGE_ping, .request_id = 3, .body_size = 8 };
    uint8_t raw[FRAME_HEADER_SIZE];
    frame_header_write(raw, &h);
    buffer_put(&b, raw, sizeof(raw));
    message_ping_write(&b, &m);
    int fd = raw_greeted(&f->daemon);
    for (size_t i = 0; i < b.size; i++) {
        raw_send(fd, b.data + i, 1);
        raw_expect_pong(f->bystander);
    }
    assert_true(raw_receive(fd, &frame));
    assert_int_equal(frame.header.type, MESSAGE_pong);
    close(fd);
}

TEST_F(hostile, unexpected_descriptors_are_closed)
{
    int fd = raw_greeted(&f->daemon);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { { 0 } };
    struct frame_header h = { .version = 1, .type = MESSAGE_ping, .request_id = 1, .body_size = 4 };
    uint8_t raw[FRAME_HEADER_SIZE + 4] = { 0 };
    frame_header_write(raw, &h);
    struct iovec part = { raw, sizeof(raw) };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = &control,
                              .msg_controllen = sizeof(control) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &ends[1], sizeof(int));
    assert_true(sendmsg(fd, &message, MSG_NOSIGNAL) > 0);
    close(ends[1]);
    struct pollfd p = { .fd = ends[0], .events = POLLIN };
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_true(p.revents & POLLHUP);
    close(ends[0]);
    close(fd);
    raw_expect_pong(f->bystander);
}

/* Makes a file that only root may read, and adds its directory to PATH, so that a compiler may look
 * for it there. Restarts kilnd, because a running kilnd keeps the earlier PATH. */
static void restart_beside_roots_own(struct fixture *f, char file[128])
{
    roots_own_file("hidden_word();\n", file);
    close(f->bystander);
    assert_int_equal(daemon_process_stop(&f->daemon), 0);
    daemon_process_start(&f->daemon);
    f->bystander = raw_greeted(&f->daemon);
}

/* Compiles a source that includes |file|. The compile must fail. Returns whether the compiler's log
 * quotes |file|. */
static bool answer_quotes(struct fixture *f, const char *file, const char *options)
{
    static struct raw_frame frame;
    char source[256], text[512];
    snprintf(source, sizeof(source), "#include \"%s\"\n", file);
    raw_send_source(f->bystander, 5, "gfx90a", options, bytes_of_text(source));
    assert_true(raw_receive(f->bystander, &frame));
    enum kiln_code code = raw_refusal(&frame, text);
    if (code != KILN_COMPILE_FAILED)
        fail_msg("not a compile error but %d: %s", (int)code, text);
    return memmem(frame.body, frame.header.body_size, "hidden_word", strlen("hidden_word"));
}

TEST_F(hostile, a_file_only_root_may_read_is_not_quoted_in_a_compile_log)
{
    char file[128];
    NEED_ROOT();
    restart_beside_roots_own(f, file);

    bool closed = answer_quotes(f, file, "-DTRY=1");
    assert_int_equal(chmod(file, 0644), 0);
    /* If all users may read the file, the log quotes it. So only the file's mode prevented the
     * first compile from quoting it. */
    bool open = answer_quotes(f, file, "-DTRY=2");

    assert_false(closed);
    assert_true(open);
}
