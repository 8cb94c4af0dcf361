/* SPDX-License-Identifier: MIT */
/*
 * What the engine needs beside its thread, and a job never meets: no hooks of a library that act on
 * the job's files, no children that its waits see, no process that outlives it.
 */
#include "tests/integration/embedded_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

/* ---- a job with libuv ---- */

static void on_signal(uv_signal_t *signal, int number)
{
    *(int *)signal->data = number;
    uv_close((uv_handle_t *)signal, NULL);
}

static bool libuv_works(void)
{
    uv_loop_t loop;
    uv_signal_t signal;
    int came = 0;
    signal.data = &came;
    return uv_loop_init(&loop) == 0 && uv_signal_init(&loop, &signal) == 0 &&
           uv_signal_start(&signal, on_signal, SIGUSR1) == 0 && raise(SIGUSR1) == 0 &&
           uv_run(&loop, UV_RUN_DEFAULT) == 0 && came == SIGUSR1 && uv_loop_close(&loop) == 0;
}

static int use_libuv_too(struct fixture *f)
{
    struct kiln_error err = { 0 };
    without_compilers();
    struct kiln_client *client = open_client(&err);
    NEED(1, client && kiln_client_ping(client, 0, NULL, &err) == 0);
    NEED(2, libuv_works());
    NEED(3, kiln_client_ping(client, 0, NULL, &err) == 0);
#ifndef __SANITIZE_THREAD__ /* which delivers no signal in a child of threads */
    pid_t pid = fork();
    if (pid == 0)
        _exit(libuv_works() ? 0 : 11);
    NEED(4, wait_program(pid) == 0);
#endif
    look(client, &f->shared->jobs[0]);
    kiln_client_close(client);
    exit(0);
}

TEST(embedded, a_job_may_use_libuv_itself)
{
    struct fixture *f = *state;
    run_as_job(f, use_libuv_too);
    assert_int_equal(atomic_load(&f->shared->jobs[0].rung), KILN_RUNG_EMBEDDED);
}

/* ---- what the processes of a job have open ---- */

#define FILES 40

static ino_t inodes[FILES];
static int first_file;

static bool open_files(struct fixture *f)
{
    for (int i = 0; i < FILES; i++) {
        char path[256];
        struct stat seen;
        snprintf(path, sizeof(path), "%s/file.%d", f->daemon.folder, i);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        first_file = i ? first_file : fd;
        if (fd != first_file + i || fstat(fd, &seen) != 0)
            return false;
        inodes[i] = seen.st_ino;
    }
    return true;
}

static bool have_the_files(void)
{
    for (int i = 0; i < FILES; i++) {
        struct stat seen;
        if (fstat(first_file + i, &seen) != 0 || seen.st_ino != inodes[i])
            return false;
    }
    return true;
}

/* Descriptors up to the first of the job's files. */
static unsigned count_open_below(int most)
{
    unsigned count = 0;
    for (int fd = 0; fd < most; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int look_in_descendants(struct fixture *f)
{
    struct kiln_error err = { 0 };
    without_compilers();
    NEED(1, close_range(STDERR_FILENO + 1, ~0u, 0) == 0);
    struct kiln_client *client = open_client(&err);
    NEED(2, client && kiln_client_ping(client, 0, NULL, &err) == 0);
    NEED(3, close_range(STDERR_FILENO + 1, ~0u, 0) == 0); /* a hook would close by number */
    NEED(4, open_files(f) && first_file == STDERR_FILENO + 1);
    pid_t child = fork();
    if (child == 0) {
        NEED(11, have_the_files());
        NEED(12, count_open_below(FILES * 2) == FILES + STDERR_FILENO + 1); /* and no more */
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(have_the_files() ? 0 : 21);
        _exit(wait_program(grandchild));
    }
    NEED(5, wait_program(child) == 0);
    NEED(6, have_the_files());
    return 0;
}

TEST(embedded, all_that_a_job_forks_have_its_files_and_no_others)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the sanitizer's threads share the job's files\n");
    skip();
#endif
    if (getenv("KILN_TEST_VALGRIND")) { /* scripts/test-valgrind */
        print_message("skipped: valgrind has a file for its log in each child\n");
        skip();
    }
    run_as_job(*state, look_in_descendants);
}

/* ---- compilers ---- */

#define WAIT_MOST_S 120

static volatile sig_atomic_t ended;
static void on_child(int number) { ended += number == SIGCHLD; }

static int wait_for_all_children(struct fixture *f)
{
    struct kiln_error err = { 0 };
    signal(SIGCHLD, on_child);
    alarm(WAIT_MOST_S); /* where it waits for ours there is no end to it */
    struct kiln_client *client = open_client(&err);
    bool is_made = client && fetch(client, 0, &err) == 0;
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    NEED(1, is_made);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    NEED(2, wait(NULL) == pid || (errno == EINTR && wait(NULL) == pid));
    NEED(3, wait(NULL) < 0 && errno == ECHILD); /* while compilers wait for work */
    NEED(4, waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    NEED(5, ended == 1);
    NEED(6, fetch(client, 1, &err) == 0);
    kiln_client_close(client); /* with which they end */
    NEED(7, waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
    NEED(8, ended == 1);
    return 0;
}

TEST(embedded, no_wait_and_no_handler_of_a_job_sees_a_compiler)
{
    run_as_job(*state, wait_for_all_children);
}

static int wait_as_a_subreaper(struct fixture *f)
{
    NEED(99, prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    return wait_for_all_children(f);
}

/* Process 1 of a container is one. */
TEST(embedded, so_it_is_in_a_job_that_orphans_come_to)
{
    if (getenv("KILN_TEST_VALGRIND")) { /* scripts/test-valgrind */
        print_message("skipped: valgrind has clone() for threads and vfork alone\n");
        skip();
    }
    run_as_job(*state, wait_as_a_subreaper);
}

enum end { BY_KILL, BY_EXIT, BY_EXEC, LEAVING_A_CHILD, ENDS };

static int compile_and_end(struct fixture *f, enum end end)
{
    struct kiln_error err = { 0 };
    struct kiln_client *client = open_client(&err);
    bool is_made = client && fetch(client, 0, &err) == 0;
    snprintf(f->shared->jobs[0].error, sizeof(f->shared->jobs[0].error), "%s", err.text);
    NEED(1, is_made);
    if (end == LEAVING_A_CHILD) {
        pid_t pid = fork();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        atomic_store(&f->shared->jobs[1].server, (int)pid);
    }
    atomic_store(&f->shared->jobs[0].had, 1);
    if (end == BY_EXIT)
        exit(0);
    if (end == BY_EXEC)
        execl("/bin/sleep", "sleep", "1000", NULL);
    raise(SIGKILL);
    return 2;
}

struct rest {
    pid_t job, child; /* these may stay */
    unsigned others;
};

/* Orphans come to the test, so it sees their ends: what is left is a job that goes on, or its
 * child. */
static bool only_they_are_left(void *context)
{
    struct rest *rest = context;
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
        rest->others += pid != rest->job;
    char path[64];
    FILE *file;
    int left = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    for (int pid; file && fscanf(file, "%d", &pid) == 1;)
        left += pid != rest->job && pid != rest->child;
    if (file)
        fclose(file);
    return file && left == 0 && rest->others > 0;
}

static bool has_kernel(void *context)
{
    struct fixture *f = context;
    return atomic_load(&f->shared->jobs[0].had) > 0;
}

static void expect_no_compiler_to_outlive(struct fixture *f, enum end end)
{
    atomic_store(&f->shared->jobs[0].had, 0);
    atomic_store(&f->shared->jobs[1].server, 0);
    struct rest rest = { .job = fork() };
    assert_true(rest.job >= 0);
    if (rest.job == 0) {
        in_a_job(f, 0);
        _exit(compile_and_end(f, end));
    }
    if (!wait_until(has_kernel, f))
        fail_msg("no kernel: '%s' '%s'", f->shared->jobs[0].error, stderr_of(f, 0));
    rest.child = atomic_load(&f->shared->jobs[1].server);
    if (!wait_until(only_they_are_left, &rest))
        fail_msg("something of a job that ended in way %d goes on", end);
    if (end == BY_EXEC)
        kill(rest.job, SIGKILL);
    if (rest.child > 0)
        kill(rest.child, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

TEST(embedded, no_compiler_outlives_a_job_however_it_ends)
{
    struct fixture *f = *state;
    if (access("/proc/self/task", R_OK) != 0) {
        skip();
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (enum end end = 0; end < ENDS; end++)
        expect_no_compiler_to_outlive(f, end);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}
