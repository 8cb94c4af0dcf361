/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_LOST 4

/* The order matters: what changes the user clears the signal of a parent's death.  Standard output
 * is closed last. */
static void settle(const char *name, keeper_give_up *give_up, void *context)
{
    prctl(PR_SET_NAME, name); /* as ps shows it */
    closefrom(STDERR_FILENO + 1);
    close(STDIN_FILENO);
    if (!give_up(context))
        _exit(EXIT_LOST);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(STDOUT_FILENO);
}

_Noreturn static void be_first(int ready_fd, keeper_give_up *give_up, void *context)
{
    dup2(ready_fd, STDOUT_FILENO);
    close(STDERR_FILENO);
    settle("kiln-first", give_up, context);
    signal(SIGCHLD, SIG_IGN); /* orphans are reaped by the system */
    for (;;)
        pause();
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return EXIT_LOST << 8;
    }
    return status;
}

_Noreturn static void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        sigset_t all;
        sigfillset(&all);
        signal(WTERMSIG(status), SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &all, NULL);
        kill(getpid(), WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_LOST);
}

_Noreturn static void keep(pid_t first, pid_t worker, keeper_give_up *give_up, void *context)
{
    settle("kiln-keeper", give_up, context);
    int status = wait_for(worker);
    kill(first, SIGKILL);
    wait_for(first); /* returns when nobody is left in the namespace */
    end_as(status);
}

/* Until the first process is what it will be: only who is the same user may end it, which the
 * keeper is soon. */
static void wait_until_closed(int fd)
{
    char nothing;
    while (read(fd, &nothing, 1) < 0 && errno == EINTR) {
    }
    close(fd);
}

/* |ret_ready_fd| is closed at its other end once it is settled. */
static pid_t start_first(keeper_give_up *give_up, void *context, int *ret_ready_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t first = fork();
    if (first == 0)
        be_first(ends[1], give_up, context);
    close(ends[1]);
    *ret_ready_fd = ends[0];
    return first;
}

enum kiln_code keeper_fork(keeper_give_up *give_up, void *context, struct kiln_err *err)
{
    int ready_fd = -1;
    pid_t first = start_first(give_up, context, &ready_fd);
    pid_t worker = first > 0 ? fork() : -1;
    if (worker > 0) {
        wait_until_closed(ready_fd);
        keep(first, worker, give_up, context);
    }
    if (worker < 0)
        kiln_fail_errno(err, errno, "cannot start a process in a namespace of its own");
    if (ready_fd >= 0)
        close(ready_fd);
    if (worker == 0)
        return KILN_OK;
    if (first > 0) {
        kill(first, SIGKILL);
        wait_for(first);
    }
    return err->code;
}
