/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_LOST 4
/* What the kernel lets a limit be unless it was told otherwise (fs.nr_open). */
#define FILES_MOST (1 << 20)

/* As closefrom, which ends the process where it may neither call close_range (an old kernel, a
 * container's filter) nor see /proc: the worker may have hidden that already. */
static void close_from(int first)
{
    struct rlimit files;
    if (close_range((unsigned)first, UINT_MAX, 0) == 0)
        return;
    int end = FILES_MOST;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MOST)
        end = (int)files.rlim_cur;
    for (int fd = first; fd < end; fd++)
        close(fd);
}

/* The order matters: what changes the user clears the signal of a parent's death.  Standard output
 * stays. */
static void settle(const char *name, keeper_give_up *give_up, void *context)
{
    prctl(PR_SET_NAME, name); /* as ps shows it */
    close_from(STDERR_FILENO + 1);
    close(STDIN_FILENO);
    if (!give_up(context))
        _exit(EXIT_LOST);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* A keeper that was killed before it could be heard of holds its end no more. */
static bool has_keeper(int ready_fd)
{
    struct pollfd ready = { .fd = ready_fd };
    return poll(&ready, 1, 0) == 0;
}

_Noreturn static void be_first(int ready_fd, keeper_give_up *give_up, void *context)
{
    dup2(ready_fd, STDOUT_FILENO);
    settle("kiln-first", give_up, context); /* which may have to say why it fails */
    close(STDERR_FILENO);
    if (!has_keeper(STDOUT_FILENO))
        _exit(EXIT_LOST);
    close(STDOUT_FILENO);
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

/* The system tells of a parent's end only those who asked before it. */
_Noreturn static void keep(pid_t first, pid_t worker, pid_t starter, keeper_give_up *give_up,
                           void *context)
{
    settle("kiln-keeper", give_up, context);
    if (getppid() != starter)
        _exit(EXIT_LOST); /* which ends the first process, and that all */
    close(STDOUT_FILENO);
    int status = wait_for(worker);
    kill(first, SIGKILL);
    wait_for(first); /* returns when nobody is left in the namespace */
    end_as(status);
}

/* Until the first process is what it will be: only who is the same user may end it, which the
 * keeper is soon; and the worker, whose end its end is, is not to begin before. */
static void wait_until_closed(int fd)
{
    char nothing;
    while (read(fd, &nothing, 1) < 0 && errno == EINTR) {
    }
    close(fd);
}

/* It is settled, or has ended. */
static pid_t start_first(keeper_give_up *give_up, void *context)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t first = fork();
    if (first == 0) {
        close(ends[0]);
        be_first(ends[1], give_up, context);
    }
    int errnum = errno;
    close(ends[1]);
    wait_until_closed(ends[0]);
    errno = errnum;
    return first;
}

enum kiln_code keeper_fork(keeper_give_up *give_up, void *context, struct kiln_err *err)
{
    pid_t starter = getppid();
    pid_t first = start_first(give_up, context);
    pid_t worker = first > 0 ? fork() : -1;
    if (worker > 0)
        keep(first, worker, starter, give_up, context);
    if (worker == 0)
        return KILN_OK;
    kiln_fail_errno(err, errno, "cannot start a process in a namespace of its own");
    if (first > 0) {
        kill(first, SIGKILL);
        wait_for(first);
    }
    return err->code;
}
