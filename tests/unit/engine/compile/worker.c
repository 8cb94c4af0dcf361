/* SPDX-License-Identifier: MIT */
/* What a compiler process answers when its compiler cannot be told, with a back end that is made
 * up. */
#include "engine/compile/compiler.h"
#include "engine/compile/scratch.h"
#include "engine/compile/worker_wire.h"
#include "tests/support/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the back end ---- */

static struct {
    enum compile_end end;  /* of every job */
    bool can_be_described; /* as version 7 */
} made;

static enum kiln_code open_made(struct compiler **ret_compiler, struct kiln_err *err)
{
    static struct compiler compiler;
    (void)err;
    compiler.ops = compilers[0];
    *ret_compiler = &compiler;
    return KILN_OK;
}

static enum kiln_code describe_made(struct compiler *compiler, struct toolchain *ret_toolchain,
                                    struct kiln_err *err)
{
    (void)compiler;
    ret_toolchain->identity.bytes[0] = 7;
    return made.can_be_described ? KILN_OK
                                 : kiln_fail(err, KILN_UNAVAILABLE, "its files are half there");
}

static enum compile_end compile_made(struct compiler *compiler, const struct compile_job *job,
                                     const struct target *target, struct buffer *ret_object,
                                     struct kiln_err *err)
{
    (void)compiler;
    (void)job;
    (void)target;
    (void)ret_object;
    kiln_fail(err, KILN_COMPILE_FAILED, "the source is wrong");
    return made.end;
}

static void close_made(struct compiler *compiler) { (void)compiler; }

static const struct compiler_ops ops = { .name = "made",
                                         .family = TARGET_AMDGPU,
                                         .open = open_made,
                                         .describe = describe_made,
                                         .compile = compile_made,
                                         .close = close_made };

const struct compiler_ops *const compilers[COMPILERS] = { &ops, &ops, &ops, &ops };

const struct compiler_ops *compiler_find(struct bytes name)
{
    return bytes_equal_text(name, "made") ? &ops : NULL;
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

/* ---- a process of one job ---- */

static void serve(int socket_fd)
{
    static const struct sandbox_report sandbox = { .has = LAYERS_ALL, .landlock = 7 };
    const struct compiler_worker_options options = { .socket_fd = socket_fd,
                                                     .max_jobs = 1,
                                                     .sandbox = &sandbox };
    if (chdir("/") == 0) /* there is no directory of PoCL's to empty */
        _exit(compiler_worker_serve(&options));
    _exit(99);
}

static struct worker_result receive(int socket_fd)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct pollfd wait = { .fd = socket_fd, .events = POLLIN };
    struct worker_result collected = { 0 };
    enum worker_message message;
    assert_int_equal(poll(&wait, 1, -1), 1);
    must(worker_receive(socket_fd, &message, &collected, &err), err);
    return collected;
}

/* With a compiler of which kilnd knows version |id|; 0: any will do. */
static struct compile_result run(uint8_t id)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct worker_files files;
    struct compile_result result;
    int ends[2], status = 0;
    struct compile_job job = { .kind = COMPILE_KERNEL,
                               .toolchain = bytes_of_text("made"),
                               .target = bytes_of_text("gfx942"),
                               .program = bytes_of_text("k.hip"),
                               .source = bytes_of_text("source"),
                               .toolchain_id.bytes[0] = id };
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]); /* it ends where the test does */
        serve(ends[1]);
    }
    close(ends[1]);
    receive(ends[0]); /* that it is ready */
    must(worker_send_job(ends[0], &job, &files, &err), err);
    struct worker_result collected = receive(ends[0]);
    worker_collect(&files, COMPILE_CRASHED, "", &collected, &result);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]);
    return result;
}

static void expect(uint8_t id, enum compile_end end, const char *text)
{
    struct compile_result result = run(id);
    assert_int_equal(result.end, end);
    assert_says(result.err.text, text);
    compile_result_done(&result);
}

/* ---- tests ---- */

TEST(plain, a_failure_of_the_known_compiler_is_the_sources)
{
    static const enum compile_end ends[] = { COMPILE_REFUSED, COMPILE_CRASHED };
    made.can_be_described = true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        made.end = ends[i];
        expect(7, ends[i], "the source is wrong");
    }
}

/* It is not remembered for the kernel, which another compiler may well make. */
TEST(plain, a_failure_of_a_compiler_that_cannot_be_reported_is_the_compilers)
{
    static const enum compile_end ends[] = { COMPILE_REFUSED, COMPILE_CRASHED };
    made.can_be_described = false;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        made.end = ends[i];
        expect(7, COMPILE_UNAVAILABLE, "its files are half there");
    }
}

TEST(plain, where_any_compiler_will_do_none_is_reported)
{
    made.can_be_described = false;
    made.end = COMPILE_REFUSED;
    expect(0, COMPILE_REFUSED, "the source is wrong");
}

TEST(plain, a_compiler_short_of_memory_is_not_asked_for_its_description)
{
    made.can_be_described = false;
    made.end = COMPILE_MEMORY;
    expect(7, COMPILE_MEMORY, "the source is wrong");
}

/* ---- what programs that it starts say ---- */

TEST(plain, a_file_without_a_name_leaves_nothing_and_needs_the_directory)
{
    char directory[] = "/tmp/kiln-test-scratch-XXXXXX", was[512];
    struct kiln_err err = KILN_ERR_INIT;
    int fd = -1, none = -1;
    assert_non_null(getcwd(was, sizeof(was)));
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    must(scratch_unnamed(&fd, &err), err);
    assert_int_equal(write(fd, "said", 4), 4);
    assert_int_equal(rmdir(directory), 0); /* it is empty */
    assert_int_equal(close(fd), 0);

    assert_int_equal(scratch_unnamed(&none, &err), KILN_NOT_FOUND);
    assert_says(err.text, "cannot make a file in the compiler's directory");
    assert_int_equal(none, -1);
    assert_int_equal(chdir(was), 0);
}
