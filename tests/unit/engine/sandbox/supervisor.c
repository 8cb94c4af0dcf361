/* SPDX-License-Identifier: MIT */
/* The three processes of a private process namespace: how they end, and that none stays. */
#include "engine/sandbox/supervisor.h"

#include "engine/sandbox/namespaces.h"
#include "tests/support/refused_call.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NO_NAMESPACE 99
#define EXIT_NOT_KEPT 98
#define EXIT_STATUS 7
#define EXIT_LOST 4 /* the keeper's own */

static int pipe_ends[2]; /* the worker and what it starts hold the second */

static int open_pipe(void **state)
{
    (void)state;
    return pipe2(pipe_ends, O_CLOEXEC);
}

static int close_pipe(void **state)
{
    (void)state;
    close(pipe_ends[0]);
    return 0;
}

FIXTURE(pipe, open_pipe, close_pipe);

static pid_t starter; /* whose end the keeper awaits before it has settled; 0: nobody's */
static bool first_fails;
static bool first_awaits_end; /* of the keeper, after one byte on standard error */

/* Its standard output is all that it has of its keeper. */
static void await_supervisors_end(void)
{
    struct pollfd supervisor = { .fd = STDOUT_FILENO };
    if (write(STDERR_FILENO, "x", 1) == 1)
        (void)poll(&supervisor, 1, -1);
}

static bool give_up(void *context)
{
    (void)context;
    if (first_fails && getpid() == 1)
        return false;
    if (first_awaits_end && getpid() == 1)
        await_supervisors_end();
    while (starter && getpid() != 1 && getppid() == starter)
        (void)poll(NULL, 0, 1);
    return true;
}

static void no_warmup(void) {}

/* In a process namespace of its own, once that is prepared: the keeper's number. */
static pid_t start_prepared(void (*prepare)(void), void (*work)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct kiln_err err = KILN_ERR_INIT;
        struct namespace_ids outside;
        struct namespace_errors errors;
        const struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        namespaces_read(&outside);
        namespaces_leave(&outside, &errors);
        if (errors.of[NAMESPACE_PID])
            _exit(EXIT_NO_NAMESPACE);
        prepare();
        if (supervisor_fork(give_up, NULL, &err)) {
            ssize_t put = write(pipe_ends[1], err.text, strlen(err.text));
            _exit(put < 0 ? 1 : EXIT_NOT_KEPT);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
        _exit(EXIT_STATUS);
    }
    close(pipe_ends[1]);
    return child;
}

static pid_t start(void (*work)(void)) { return start_prepared(no_warmup, work); }

static int end_of(pid_t supervisor)
{
    int status = 0;
    assert_int_equal(waitpid(supervisor, &status, 0), supervisor);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_NAMESPACE) {
        print_message("skipped: no process namespace is to be had here\n");
        close(pipe_ends[0]);
        skip();
    }
    return status;
}

static void do_nothing(void) {}

TEST(pipe, the_supervisor_exits_with_the_status_of_the_worker)
{
    int status = end_of(start(do_nothing));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_STATUS);
}

static int signal_to_die_of;

/* As abort() and the kernel do it: the default's way, which a first process would ignore. */
static void die(void)
{
    signal(signal_to_die_of, SIG_DFL);
    raise(signal_to_die_of);
}

TEST(pipe, the_supervisor_dies_of_the_signal_of_the_worker)
{
    static const int signals[] = { SIGABRT, SIGSEGV, SIGXCPU, SIGKILL, SIGTERM };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        signal_to_die_of = signals[i];
        if (i > 0)
            assert_int_equal(open_pipe(NULL), 0);
        int status = end_of(start(die));
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        if (i + 1 < sizeof(signals) / sizeof(signals[0]))
            close_pipe(NULL);
    }
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

/* Out of its process group, and nobody's child. */
static void leave_an_orphan(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() > 0)
            _exit(0);
        wait_for_ever();
    }
    wait(NULL);
}

static void leave_an_orphan_and_wait(void)
{
    leave_an_orphan();
    if (write(pipe_ends[1], "x", 1) != 1)
        _exit(1);
    wait_for_ever();
}

static bool nobody_holds_the_pipe(bool at_once)
{
    char byte;
    if (at_once)
        assert_int_equal(fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK), 0);
    return read(pipe_ends[0], &byte, 1) == 0;
}

TEST(pipe, processes_left_by_the_worker_are_gone_when_the_supervisor_ends)
{
    int status = end_of(start(leave_an_orphan));
    assert_int_equal(WEXITSTATUS(status), EXIT_STATUS);
    assert_true(nobody_holds_the_pipe(true));
}

TEST(pipe, killing_the_supervisor_alone_ends_all_its_processes)
{
    char byte;
    pid_t supervisor = start(leave_an_orphan_and_wait);
    if (read(pipe_ends[0], &byte, 1) == 1)
        assert_int_equal(kill(supervisor, SIGKILL), 0);
    int status = end_of(supervisor);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(nobody_holds_the_pipe(false));
}

static void say_so_and_wait(void)
{
    if (write(pipe_ends[1], "x", 1) != 1)
        _exit(1);
    wait_for_ever();
}

static pid_t start_by_another(void)
{
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        int status = 0;
        starter = getpid();
        waitpid(start(say_so_and_wait), &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    close(pipe_ends[1]);
    return other;
}

TEST(pipe, all_end_when_the_starter_ends_before_the_supervisor_is_ready)
{
    char byte;
    pid_t other = start_by_another();
    if (read(pipe_ends[0], &byte, 1) == 1)
        assert_int_equal(kill(other, SIGKILL), 0);
    int status = end_of(other);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(nobody_holds_the_pipe(false));
}

/* Not that memory lacks, which is what a fork into its namespace would fail with. */
TEST(pipe, a_first_process_that_fails_to_set_up_is_reported_and_no_worker_starts)
{
    char said[sizeof(((struct kiln_err *)0)->text)] = "";
    first_fails = true;
    int status = end_of(start(do_nothing));
    first_fails = false;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_NOT_KEPT);
    assert_true(read(pipe_ends[0], said, sizeof(said) - 1) > 0);
    assert_string_equal(said, "the first process of its namespace ended at once");
    assert_true(nobody_holds_the_pipe(true));
}

static void say_errors_into_the_pipe(void) { dup2(pipe_ends[1], STDERR_FILENO); }

/* Its end comes before the first process asked to be told of it. */
TEST(pipe, a_first_process_whose_supervisor_ended_during_set_up_ends)
{
    char byte;
    int status = 0;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    first_awaits_end = true;
    pid_t supervisor = start_prepared(say_errors_into_the_pipe, do_nothing);
    first_awaits_end = false;
    if (read(pipe_ends[0], &byte, 1) == 1)
        assert_int_equal(kill(supervisor, SIGKILL), 0);
    int end = end_of(supervisor);
    assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
    assert_true(waitpid(-1, &status, 0) > 0); /* it is ours by now */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LOST);
}

/* It is no first process: those ignore what they do not handle. */
static void say_who_it_is(void) { _exit(getpid() > 1 && getppid() == 0 ? EXIT_STATUS : 1); }

TEST(pipe, the_worker_is_an_ordinary_process_of_its_namespace)
{
    int status = end_of(start(say_who_it_is));
    assert_int_equal(WEXITSTATUS(status), EXIT_STATUS);
}

/* ---- where files cannot be closed at once ---- */

static int refusal; /* errno of close_range */

/* As in a container whose filter is older than the call, once the worker has changed its root. */
static void hide_proc_and_refuse_close_range(void)
{
    if (!refuse_call(SYS_close_range, refusal) || chroot("/usr") || access("/proc", F_OK) == 0)
        _exit(EXIT_NO_NAMESPACE);
}

static void close_the_pipe_and_wait(void)
{
    close(pipe_ends[1]);
    wait_for_ever();
}

TEST(pipe, supervisor_and_worker_keep_no_file_where_close_range_is_refused)
{
    static const int refusals[] = { ENOSYS, EPERM };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        refusal = refusals[i];
        if (i > 0)
            assert_int_equal(open_pipe(NULL), 0);
        pid_t supervisor =
            start_prepared(hide_proc_and_refuse_close_range, close_the_pipe_and_wait);
        assert_true(nobody_holds_the_pipe(false));
        kill(supervisor, SIGKILL); /* one that has ended by itself did so otherwise */
        int status = end_of(supervisor);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (i + 1 < sizeof(refusals) / sizeof(refusals[0]))
            close_pipe(NULL);
    }
}
