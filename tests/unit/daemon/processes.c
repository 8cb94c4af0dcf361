/* SPDX-License-Identifier: MIT */
#include "daemon/loop/process.h"

#include "daemon/loop/spawn.h"
#include "tests/support/child.h"
#include "tests/support/test.h"
#include "tests/support/test_descriptors.h"
#include "tests/support/wait.h"
#include "tests/unit/daemon/loop_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    struct loop *loop;
    struct loop_owner owner;
    struct kiln_err err;
    struct loop_process process;
    int ends[2]; /* a socket pair; the child gets ends[1] as its descriptor 3 */
    int status, signal;
    unsigned exits;
    char said[4096];
};

static pid_t killed;
/* whether the leader of the process group |killed| was not yet reaped when kill(2) was called */
static bool killed_existed;
WRAP(int, kill, pid_t pid, int number)
{
    siginfo_t end = { .si_pid = 0 };
    killed = -pid;
    killed_existed = waitid(P_PID, (id_t)-pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0;
    return __real_kill(pid, number);
}

static bool no_pidfds;
WRAP(long, syscall, long number, ...)
{
    va_list more;
    va_start(more, number);
    pid_t pid = va_arg(more, pid_t);
    unsigned flags = va_arg(more, unsigned);
    va_end(more);
    assert_int_equal(number, SYS_pidfd_open);
    errno = ENOSYS;
    return no_pidfds ? -1 : __real_syscall(number, pid, flags);
}

SET_UP(set_up)
{
    no_pidfds = false;
    killed = 0;
    f->loop = open_loop();
    test_socket_pair(SOCK_STREAM, &f->ends[0], &f->ends[1]);
}

TEAR_DOWN(tear_down)
{
    loop_process_close(&f->process);
    signal(SIGCHLD, SIG_DFL);
}

FIXTURE(process, set_up, tear_down);

static void on_exit_status(struct loop_process *process, int status, int signal)
{
    struct fixture *f = LOOP_OWNER_OF(struct fixture, process, process);
    f->exits++;
    f->status = status;
    f->signal = signal;
    loop_process_close(process);
}

static void start_with(struct fixture *f, const char *command, int fd_2)
{
    const char *const arguments[] = { "sh", "-c", command, NULL };
    const struct loop_spawn spawn = {
        .program = "/bin/sh", .arguments = arguments, .fd_2 = fd_2, .fd_3 = f->ends[1]
    };
    pid_t pid = 0;
    assert_int_equal(spawn_process(&spawn, &pid), 0);
    f->process.exited = on_exit_status;
    loop_process_watch(f->loop, &f->process, &f->owner, pid);
    close(f->ends[1]);
    f->ends[1] = -1;
}

static void finish_child(struct fixture *f)
{
    size_t used = 0;
    ssize_t got;
    LOOP_TO_END(f->loop, "the process to end");
    assert_int_equal(f->exits, 1);
    IN_TIME(while ((got = read(f->ends[0], f->said + used, sizeof(f->said) - 1 - used)) > 0) used +=
            (size_t)got);
}

static void run_command(struct fixture *f, const char *command)
{
    start_with(f, command, -1);
    finish_child(f);
}

TEST_F(process, an_exit_status_is_reported_once)
{
    run_command(f, "exit 7");
    assert_int_equal(f->status, 7);
    assert_int_equal(f->signal, 0);
}

TEST_F(process, a_signal_that_ended_a_process_is_reported)
{
    run_command(f, "kill -TERM $$");
    assert_int_equal(f->signal, SIGTERM);
}

TEST_F(process, a_kill_ends_the_whole_process_group)
{
    start_with(f, "(echo >&3; exec sleep 1000) & wait", -1);
    await_progress(f->ends[0], 1);
    loop_process_kill(&f->process);
    finish_child(f); /* reads until no process holds descriptor 3 */
    assert_int_equal(f->signal, SIGKILL);
}

/* Once the process has been reaped, another process group may get its number. */
TEST(process, the_group_of_an_ended_process_is_killed_before_it_is_reaped)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1) {
            assert_int_equal(tear_down(state), 0);
            assert_int_equal(set_up(state), 0);
            no_pidfds = true;
        }
        start_with(f, "sleep 1000 & exit 3", -1);
        pid_t pid = f->process.pid;
        finish_child(f);
        assert_int_equal(f->status, 3);
        assert_int_equal(killed, pid);
        assert_true(killed_existed);
        killed = 0;
        loop_process_kill(&f->process);
        assert_int_equal(killed, 0);
    }
}

TEST_F(process, the_end_of_a_process_is_seen_without_pidfds_too)
{
    no_pidfds = true;
    run_command(f, "exit 9");
    assert_int_equal(f->status, 9);
}

TEST_F(process, a_program_that_cannot_be_run_is_an_error)
{
    const char *const arguments[] = { "absent", NULL };
    const struct loop_spawn spawn = { "/nonexistent/absent", arguments, -1, f->ends[1] };
    pid_t pid = 0;
    assert_int_equal(spawn_process(&spawn, &pid), ENOENT);
    loop_process_kill(&f->process);
}

/* Returns what descriptor |n| of process |pid| refers to, or "" if it has no such descriptor. */
static const char *descriptor_of(pid_t pid, int n)
{
    static char target[128];
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, n);
    ssize_t got = readlink(path, target, sizeof(target) - 1);
    target[got > 0 ? got : 0] = '\0';
    return target;
}

/* The test looks at the stopped shell from outside, because the shell would open more
 * descriptors for pipes and redirections. */
TEST_F(process, a_started_process_has_only_its_four_descriptors)
{
    enum { DESCRIPTORS = 64 };
    siginfo_t stopped = { .si_code = 0 };
    int inheritable = dup(f->ends[0]); /* without close-on-exec, as a program may have */
    assert_true(inheritable >= 4);
    start_with(f, "kill -STOP $$", -1);
    close(inheritable);
    IN_TIME(waitid(P_PID, (id_t)f->process.pid, &stopped, WSTOPPED));
    assert_int_equal(stopped.si_code, CLD_STOPPED);
    for (int n = 0; n < 3; n++)
        assert_string_equal(descriptor_of(f->process.pid, n), "/dev/null");
    assert_says(descriptor_of(f->process.pid, 3), "socket:");
    for (int n = 4; n < DESCRIPTORS; n++)
        assert_string_equal(descriptor_of(f->process.pid, n), "");
    assert_int_equal(kill(f->process.pid, SIGCONT), 0);
    finish_child(f);
}

TEST_F(process, a_process_gets_the_given_standard_error)
{
    int pipe_ends[2];
    char said[64] = { 0 };
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    start_with(f, "echo trouble >&2", pipe_ends[1]);
    close(pipe_ends[1]);
    finish_child(f);
    ssize_t size;
    IN_TIME(size = read(pipe_ends[0], said, sizeof(said) - 1));
    assert_true(size > 0);
    close(pipe_ends[0]);
    assert_string_equal(said, "trouble\n");
}

TEST_F(process, a_process_starts_where_the_standard_files_are_closed)
{
    int kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 20);
        close(i);
    }
    int low = dup(f->ends[1]);
    int second = dup(f->ends[1]), third = dup(f->ends[1]);
    close(f->ends[1]);
    f->ends[1] = low;
    start_with(f, "echo here >&3; echo trouble >&2", second);
    close(second);
    close(third);
    for (int i = 0; i < 3; i++) {
        dup2(kept[i], i);
        close(kept[i]);
    }
    finish_child(f);
    assert_int_equal(low, 0);
    assert_string_equal(f->said, "here\ntrouble\n");
}

/* Signals 32 and 33, which glibc reserves for its threads. */
#define GLIBC_SIGNALS (3ull << 31)

TEST_F(process, a_started_process_has_default_signals)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGUSR2, SIG_IGN);
    run_command(f, "grep -E '^Sig(Blk|Ign)' /proc/self/status >&3");
    signal(SIGUSR2, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    unsigned long long is_blocked = 1, is_ignored = 1;
    assert_int_equal(sscanf(f->said, "SigBlk: %llx SigIgn: %llx", &is_blocked, &is_ignored), 2);
    assert_int_equal(is_blocked, 0);
    assert_int_equal(is_ignored & ~GLIBC_SIGNALS, 0);
}

TEST_F(process, a_started_process_leads_its_own_session)
{
    unsigned long pid = 0, group = 0, session = 0;
    start_with(f, "cut -d' ' -f1,5,6 /proc/$$/stat >&3", -1);
    pid_t started = f->process.pid;
    finish_child(f);
    assert_int_equal(sscanf(f->said, "%lu %lu %lu", &pid, &group, &session), 3);
    assert_int_equal(group, pid);
    assert_int_equal(session, pid);
    assert_int_equal((unsigned long)started, pid);
}

static void on_child_signal(int number) { (void)number; }

TEST_F(process, the_sigchld_handler_of_the_program_stays)
{
    struct sigaction after;
    const struct sigaction before = { .sa_handler = on_child_signal, .sa_flags = SA_RESTART };
    assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
    run_command(f, "exit 3");
    assert_int_equal(sigaction(SIGCHLD, NULL, &after), 0);
    assert_ptr_equal(after.sa_handler, on_child_signal);
    assert_int_equal(f->status, 3);
}
