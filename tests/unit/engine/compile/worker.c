/* SPDX-License-Identifier: MIT */
#include "engine/compile/compiler.h"
#include "engine/compile/scratch.h"
#include "engine/compile/worker_wire.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 60000

static struct {
    enum compile_end end;
    bool can_be_described; /* if false, describing it fails */
} fake;

static enum kiln_code open_fake(struct compiler **ret_compiler, struct kiln_err *err)
{
    static struct compiler compiler;
    (void)err;
    compiler.ops = compilers[0];
    *ret_compiler = &compiler;
    return KILN_OK;
}

static enum kiln_code describe_fake(struct compiler *compiler, struct toolchain *ret_toolchain,
                                    struct kiln_err *err)
{
    (void)compiler;
    ret_toolchain->identity.bytes[0] = 7;
    return fake.can_be_described
               ? KILN_OK
               : kiln_fail(err, KILN_UNAVAILABLE, "half of its files are missing");
}

static enum compile_end compile_fake(struct compiler *compiler, const struct compile_job *job,
                                     const struct target *target, struct buffer *ret_object,
                                     struct kiln_err *err)
{
    (void)compiler;
    (void)job;
    (void)target;
    (void)ret_object;
    kiln_fail(err, KILN_COMPILE_FAILED, "the source is wrong");
    return fake.end;
}

static void close_fake(struct compiler *compiler) { (void)compiler; }

static const struct compiler_ops ops = { .name = "fake",
                                         .family = TARGET_AMDGPU,
                                         .open = open_fake,
                                         .describe = describe_fake,
                                         .compile = compile_fake,
                                         .close = close_fake };

const struct compiler_ops *const compilers[COMPILERS] = { &ops, &ops, &ops, &ops };

const struct compiler_ops *compiler_find(struct bytes name)
{
    return bytes_equal_text(name, "fake") ? &ops : NULL;
}

struct compile_job compiler_probe_job(enum target_family family)
{
    (void)family;
    return (struct compile_job){ .kind = COMPILE_PROBE };
}

void compiler_log(const char *text, size_t size)
{
    (void)text;
    (void)size;
}

static void run_worker(int socket_fd)
{
    static const struct sandbox_report sandbox = { .has = LAYERS_ALL, .landlock = 7 };
    const struct compiler_worker_options options = { .socket_fd = socket_fd,
                                                     .max_jobs = 1,
                                                     .sandbox = &sandbox };
    /* The worker empties the directory "pocl" in its working directory, which must not be the
     * test's. */
    if (chdir("/") == 0)
        _exit(compiler_worker_serve(&options));
    _exit(99);
}

static struct worker_result receive_message(int socket_fd)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct pollfd wait = { .fd = socket_fd, .events = POLLIN };
    struct worker_result collected = { 0 };
    enum worker_message message;
    assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
    must(worker_receive(socket_fd, &message, &collected, &err), err);
    return collected;
}

/* Runs a job in a worker process. |id| is the first byte of the identity of the expected
 * compiler, or 0 for any compiler. */
static struct compile_result run_job(uint8_t id)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct worker_files files;
    struct compile_result result;
    int ends[2];
    struct compile_job job = { .kind = COMPILE_KERNEL,
                               .toolchain = bytes_of_text("fake"),
                               .target = bytes_of_text("gfx942"),
                               .program = bytes_of_text("k.hip"),
                               .source = bytes_of_text("source"),
                               .toolchain_id.bytes[0] = id };
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        /* with a copy of ends[0], the worker would not notice that the test closes it */
        close(ends[0]);
        run_worker(ends[1]);
    }
    close(ends[1]);
    receive_message(ends[0]); /* WORKER_READY */
    must(worker_send_job(ends[0], &job, &files, &err), err);
    struct worker_result collected = receive_message(ends[0]);
    worker_collect(&files, COMPILE_CRASHED, "", &collected, &result);
    assert_int_equal(await_child(pid), 0);
    close(ends[0]);
    return result;
}

static void expect_end(uint8_t id, enum compile_end end, const char *keyword)
{
    struct compile_result result = run_job(id);
    assert_int_equal(result.end, end);
    assert_says(result.err.text, keyword);
    compile_result_done(&result);
}

TEST(plain, a_failure_of_the_expected_compiler_is_reported_unchanged)
{
    static const enum compile_end ends[] = { COMPILE_REFUSED, COMPILE_CRASHED };
    fake.can_be_described = true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        fake.end = ends[i];
        expect_end(7, ends[i], "source");
    }
}

/* The expected compiler may accept a source that the unidentified one refuses. The failure must
 * therefore not be remembered. */
TEST(plain, a_failure_of_an_unidentified_compiler_is_not_blamed_on_the_source)
{
    static const enum compile_end ends[] = { COMPILE_REFUSED, COMPILE_CRASHED };
    fake.can_be_described = false;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        fake.end = ends[i];
        expect_end(7, COMPILE_UNAVAILABLE, "files");
    }
}

TEST(plain, a_job_that_accepts_any_compiler_does_not_identify_it)
{
    fake.can_be_described = false;
    fake.end = COMPILE_REFUSED;
    expect_end(0, COMPILE_REFUSED, "source");
}

TEST(plain, a_compiler_short_of_memory_is_not_identified)
{
    fake.can_be_described = false;
    fake.end = COMPILE_MEMORY;
    expect_end(7, COMPILE_MEMORY, "source");
}

TEST(plain, an_unnamed_scratch_file_leaves_no_entry_and_needs_the_directory)
{
    char directory[] = "/tmp/kiln-test-scratch-XXXXXX", was[512];
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1, none = -1;
    assert_non_null(getcwd(was, sizeof(was)));
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    must(scratch_unnamed(&fd, &err), err);
    assert_int_equal(write(fd, "said", 4), 4);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(close(fd), 0);

    assert_int_equal(scratch_unnamed(&none, &err), KILN_NOT_FOUND);
    assert_says(err.text, "directory");
    assert_int_equal(none, -1);
    assert_int_equal(chdir(was), 0);
}
