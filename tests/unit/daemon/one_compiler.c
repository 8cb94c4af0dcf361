/* SPDX-License-Identifier: MIT */
/* A program with the engine linked in starts one kiln-compiler process. These are tests of that
 * process. */
#include "tests/support/daemon_process.h"
#include "tests/support/entries.h"
#include "tests/support/test_files.h"
#include "tests/support/wait.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "daemon/built_in/one_compiler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define IN_A_MINUTE (clock_monotonic_ns() + 60000000000ull)
#define SOON (clock_monotonic_ns() + 50000000ull)

struct fixture {
    const char *directory;
    struct embed_compiler *compiler;
    struct compile_job job;
    struct compile_result result;
};

/* Installs |text| as the kiln-compiler, next to a link to the real kiln-launch. */
static void use_script(struct fixture *f, const char *text)
{
    const char *script = test_path(f->directory, "kiln-compiler");
    test_write_text(script, text);
    assert_int_equal(chmod(script, 0755), 0);
    assert_int_equal(symlink(KILN_BIN "/kiln-launch", test_path(f->directory, "kiln-launch")), 0);
    setenv("KILN_COMPILER", script, 1);
}

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_directory(),
                           .compiler = one_compiler(),
                           .job = { .kind = COMPILE_DESCRIBE, .origin = COMPILE_OF_KILN } };
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", test_subdirectory(f->directory, "temp"), 1);
    setenv("KILN_COMPILER", KILN_BIN "/kiln-compiler", 1);
}

TEAR_DOWN(tear_down) { f->compiler->ops->stop(f->compiler); }

FIXTURE(compiler, set_up, tear_down);

static void begin_job(struct fixture *f)
{
    f->result = COMPILE_RESULT_INIT;
    f->compiler->ops->begin(f->compiler, &f->job, &f->result);
}

static void run_job(struct fixture *f)
{
    begin_job(f);
    assert_true(f->compiler->ops->wait(f->compiler, IN_A_MINUTE));
}

static void describe_compiler(struct fixture *f)
{
    run_job(f);
    must(f->result.err.code, f->result.err);
    assert_int_equal(f->result.end, COMPILE_DONE);
    assert_true(f->result.object_fd >= 0);
    compile_result_done(&f->result);
}

static void expect_unavailable(struct fixture *f, const char *words)
{
    assert_int_equal(f->result.end, COMPILE_UNAVAILABLE);
    assert_int_equal(f->result.err.code, KILN_UNAVAILABLE);
    assert_says(f->result.err.text, words);
    compile_result_done(&f->result);
}

/* Returns the pid of a process whose command line contains |text|, or 0. */
static pid_t find_process(const char *text)
{
    pid_t found = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *e; !found && (e = readdir(all));) {
        char path[300], line[1000];
        snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
        int fd = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? open(path, O_RDONLY) : -1;
        ssize_t got = fd >= 0 ? read(fd, line, sizeof(line)) : -1;
        if (got > 0 && memmem(line, (size_t)got, text, strlen(text)))
            found = (pid_t)strtol(e->d_name, NULL, 10);
        if (fd >= 0)
            close(fd);
    }
    closedir(all);
    return found;
}

/* A killed process keeps its command line until its parent reaps it. */
static bool has_no_process(void *context)
{
    const struct fixture *f = context;
    return find_process(f->directory) == 0;
}

TEST_F(compiler, one_process_does_several_jobs_of_kiln)
{
    describe_compiler(f);
    pid_t first = find_process(f->directory);
    assert_true(first > 0);
    describe_compiler(f);
    assert_int_equal(find_process(f->directory), first);
}

TEST_F(compiler, the_compiler_process_is_not_a_child_of_the_program)
{
    describe_compiler(f);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

TEST_F(compiler, a_stopped_compiler_leaves_no_process_file_or_descriptor)
{
    unsigned files = descriptor_count(getpid());
    describe_compiler(f);
    f->compiler->ops->stop(f->compiler);
    assert_int_equal(descriptor_count(getpid()), files);
    assert_int_equal(entry_count(getenv("TMPDIR"), ""), 0);
    wait_until("the compiler process ended", has_no_process, f);
    describe_compiler(f);
}

TEST_F(compiler, a_compiler_process_is_replaced_after_a_clients_source)
{
    f->job.origin = COMPILE_OF_CLIENT;
    describe_compiler(f);
    wait_until("the compiler process ended", has_no_process, f);
    describe_compiler(f);
}

TEST_F(compiler, a_compiler_process_killed_between_two_jobs_is_replaced)
{
    describe_compiler(f);
    pid_t first = find_process(f->directory);
    kill(first, SIGKILL);
    WAIT_FOR(kill(first, 0) != 0); /* kiln-launch has waited for the process */
    describe_compiler(f);
}

TEST_F(compiler, a_missing_compiler_program_is_named)
{
    setenv("KILN_COMPILER", "/nonexistent/kiln-compiler", 1);
    run_job(f);
    expect_unavailable(f, "'/nonexistent/kiln-compiler'");
}

TEST_F(compiler, a_compiler_program_of_another_build_is_reported)
{
    use_script(f, "#!/bin/sh\nexit 2\n");
    run_job(f);
    expect_unavailable(f, "flags");
}

TEST_F(compiler, a_compiler_program_that_dies_at_once_is_reported)
{
    use_script(f, "#!/bin/sh\nkill -SEGV $$\n");
    run_job(f);
    expect_unavailable(f, "signal 11");
    f->compiler->ops->stop(f->compiler);
    assert_int_equal(entry_count(getenv("TMPDIR"), ""), 0);
}

TEST_F(compiler, a_wait_ends_at_its_deadline_and_by_wake)
{
    use_script(f, "#!/bin/sh\nexec sleep 600\n");
    begin_job(f);
    assert_false(f->compiler->ops->wait(f->compiler, SOON));
    f->compiler->ops->wake(f->compiler);
    uint64_t before = clock_monotonic_ns();
    assert_false(f->compiler->ops->wait(f->compiler, IN_A_MINUTE));
    assert_true(clock_monotonic_ns() - before < 30000000000ull);
    f->compiler->ops->stop(f->compiler);
    expect_unavailable(f, "stopped");
    assert_int_equal(entry_count(getenv("TMPDIR"), ""), 0);
}
