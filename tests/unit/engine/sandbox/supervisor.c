/* SPDX-License-Identifier: MIT */
/* Tests how the three processes of a private process namespace end, and that none remains. */
#include "engine/sandbox/supervisor.h"

#include "engine/sandbox/namespaces.h"
#include "tests/support/child.h"
#include "tests/support/refused_call.h"
#include "tests/support/test_descriptors.h"
#include "tests/support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NO_NAMESPACE 99
#define EXIT_NO_WORKER 98
#define EXIT_NO_END 97
#define EXIT_STATUS 7
#define EXIT_LOST 4 /* as in supervisor.c */

static int pipe_ends[2] = { -1, -1 }; /* the worker and its children hold the write end */

static void open_pipe(void)
{
    fd_close(&pipe_ends[0]);
    fd_close(&pipe_ends[1]);
    test_pipe(0, &pipe_ends[0], &pipe_ends[1]);
}

SET_UP_STATIC(set_up) { open_pipe(); }

FIXTURE(pipe, set_up, NULL);

static pid_t starter; /* if not 0, the supervisor waits until this process has ended */
static bool init_fails;
static bool init_awaits_end;

/* Runs in init, and waits until the supervisor has ended. Init writes a byte to the test, which
 * replies after that end. The end of init's pipe to the supervisor would come too early: Linux
 * closes the pipe before it sends death signals. Such a signal would end an init that has just set
 * PR_SET_PDEATHSIG. */
static void await_supervisors_end(void)
{
    char byte;
    struct pollfd test = { .fd = STDERR_FILENO, .events = POLLIN };
    if (write(STDERR_FILENO, "x", 1) != 1 || poll(&test, 1, WAIT_MAX_S * 1000) != 1 ||
        read(STDERR_FILENO, &byte, 1) != 1)
        _exit(EXIT_NO_END);
}

static bool give_up(void *context)
{
    (void)context;
    if (init_fails && getpid() == 1)
        return false;
    if (init_awaits_end && getpid() == 1)
        await_supervisors_end();
    if (starter && getpid() != 1)
        WAIT_FOR(getppid() != starter);
    return true;
}

static void prepare_nothing(void) {}

/* Runs |prepare|, and then |work| in a private process namespace. Returns the supervisor's pid. */
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
            _exit(put < 0 ? 1 : EXIT_NO_WORKER);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
        _exit(EXIT_STATUS);
    }
    fd_close(&pipe_ends[1]);
    return child;
}

static pid_t start_supervised(void (*work)(void)) { return start_prepared(prepare_nothing, work); }

static int end_of(pid_t supervisor)
{
    int status = await_child(supervisor);
    SKIP_IF(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_NAMESPACE,
            "this host allows no process namespace");
    return status;
}

static void do_nothing(void) {}

TEST(pipe, the_supervisor_exits_with_the_status_of_the_worker)
{
    int status = end_of(start_supervised(do_nothing));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_STATUS);
}

static int fatal_signal;

/* Ends the worker by the signal's default action, as abort() does. A namespace's init would
 * ignore such a signal. */
static void die(void)
{
    signal(fatal_signal, SIG_DFL);
    raise(fatal_signal);
}

TEST(pipe, the_supervisor_dies_of_the_signal_of_the_worker)
{
    static const int signals[] = { SIGABRT, SIGSEGV, SIGXCPU, SIGKILL, SIGTERM };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        fatal_signal = signals[i];
        open_pipe();
        int status = end_of(start_supervised(die));
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
    }
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void leave_an_orphan(void)
{
    pid_t parent = fork();
    if (parent == 0) {
        setsid();
        if (fork() > 0)
            _exit(0);
        wait_for_ever();
    }
    await_child(parent);
}

static void leave_an_orphan_and_wait(void)
{
    leave_an_orphan();
    if (write(pipe_ends[1], "x", 1) != 1)
        _exit(1);
    wait_for_ever();
}

/* Returns whether the worker has written a byte. If not, the worker has ended, as on a host that
 * allows no process namespace. */
static bool is_reported(void)
{
    char byte;
    ssize_t got;
    IN_TIME(got = read(pipe_ends[0], &byte, 1));
    return got == 1;
}

TEST(pipe, processes_left_by_the_worker_are_gone_when_the_supervisor_ends)
{
    int status = end_of(start_supervised(leave_an_orphan));
    assert_int_equal(WEXITSTATUS(status), EXIT_STATUS);
    assert_false(has_writer(pipe_ends[0]));
}

TEST(pipe, killing_the_supervisor_alone_ends_all_its_processes)
{
    pid_t supervisor = start_supervised(leave_an_orphan_and_wait);
    if (is_reported())
        assert_int_equal(kill(supervisor, SIGKILL), 0);
    int status = end_of(supervisor);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    await_no_writer(pipe_ends[0]);
}

static void report_and_wait(void)
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
        starter = getpid();
        int status = await_child(start_supervised(report_and_wait));
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    fd_close(&pipe_ends[1]);
    return other;
}

TEST(pipe, all_end_when_the_starter_ends_before_the_supervisor_is_ready)
{
    pid_t other = start_by_another();
    if (is_reported())
        assert_int_equal(kill(other, SIGKILL), 0);
    int status = end_of(other);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    await_no_writer(pipe_ends[0]);
}

/* After a namespace's init has ended, forks into the namespace fail with ENOMEM. The message must
 * nevertheless not be "out of memory". */
TEST(pipe, an_init_process_that_fails_to_start_is_reported_and_no_worker_starts)
{
    char message[sizeof(((struct kiln_err *)0)->text)] = "";
    init_fails = true;
    int status = end_of(start_supervised(do_nothing));
    init_fails = false;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_NO_WORKER);
    ssize_t size;
    IN_TIME(size = read(pipe_ends[0], message, sizeof(message) - 1));
    assert_true(size > 0);
    assert_says(message, "init process");
    assert_false(has_writer(pipe_ends[0]));
}

static void redirect_errors_to_the_test(void) { dup2(pipe_ends[1], STDERR_FILENO); }

/* The supervisor ends before init sets PR_SET_PDEATHSIG. */
TEST(pipe, an_init_process_whose_supervisor_ended_during_set_up_ends)
{
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipe_ends), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    init_awaits_end = true;
    pid_t supervisor = start_prepared(redirect_errors_to_the_test, do_nothing);
    init_awaits_end = false;
    if (is_reported())
        assert_int_equal(kill(supervisor, SIGKILL), 0);
    int end = end_of(supervisor);
    assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
    assert_int_equal(send(pipe_ends[0], "x", 1, MSG_NOSIGNAL), 1);
    int status = await_child(-1);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_LOST);
}

/* The worker must not be the namespace's init, which ignores signals without a handler. */
static void exit_by_identity(void) { _exit(getpid() > 1 && getppid() == 0 ? EXIT_STATUS : 1); }

TEST(pipe, the_worker_is_an_ordinary_process_of_its_namespace)
{
    int status = end_of(start_supervised(exit_by_identity));
    assert_int_equal(WEXITSTATUS(status), EXIT_STATUS);
}

static int refusal; /* errno of close_range */

/* Refuses close_range(2), like the system-call filter of a container that is older than this call.
 * Hides /proc, as if the worker had changed its root. */
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
        open_pipe();
        pid_t supervisor =
            start_prepared(hide_proc_and_refuse_close_range, close_the_pipe_and_wait);
        await_no_writer(pipe_ends[0]);
        /* The supervisor must still run. If it had ended by itself, its status would be another. */
        kill(supervisor, SIGKILL);
        int status = end_of(supervisor);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}
