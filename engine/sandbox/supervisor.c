/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_LOST 4
/* What the kernel lets a limit be unless it was told otherwise (fs.nr_open). */
#define FILES_MAX (1 << 20)

/* As closefrom, which ends the process where it may neither call close_range (an old kernel, a
 * container's filter) nor see /proc: the worker may have hidden that already. */
static void close_from(int first)
{
    struct rlimit files;
    if (close_range((unsigned)first, UINT_MAX, 0) == 0)
        return;
    int end = FILES_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MAX)
        end = (int)files.rlim_cur;
    for (int fd = first; fd < end; fd++)
        close(fd);
}

/* The order matters: what changes the user clears the signal of a parent's death.  Standard output
 * stays. */
static void settle(const char *name, supervisor_give_up *give_up, void *context)
{
    prctl(PR_SET_NAME, name); /* as ps shows it */
    close_from(STDERR_FILENO + 1);
    close(STDIN_FILENO);
    if (!give_up(context))
        _exit(EXIT_LOST);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* False where the keeper was killed before it could be heard of: it holds its end no more. */
static bool report_supervisor(int settled_fd)
{
    ssize_t put;
    signal(SIGPIPE, SIG_IGN);
    do
        put = write(settled_fd, "", 1);
    while (put < 0 && errno == EINTR);
    return put == 1;
}

_Noreturn static void be_first(int settled_fd, supervisor_give_up *give_up, void *context)
{
    dup2(settled_fd, STDOUT_FILENO);
    settle("kiln-first", give_up, context); /* which may have to say why it fails */
    close(STDERR_FILENO);
    if (!report_supervisor(STDOUT_FILENO))
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

static void end(pid_t first)
{
    kill(first, SIGKILL);
    wait_for(first); /* returns when nobody is left in the namespace */
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
_Noreturn static void keep(pid_t first, pid_t worker, pid_t starter, supervisor_give_up *give_up,
                           void *context)
{
    settle("kiln-keeper", give_up, context);
    if (getppid() != starter)
        _exit(EXIT_LOST); /* which ends the first process, and that all */
    close(STDOUT_FILENO);
    int status = wait_for(worker);
    end(first);
    end_as(status);
}

/* Until the first process is what it will be: only who is the same user may end it, which the
 * keeper is soon; and the worker, whose end its end is, is not to begin before. */
static bool has_settled(int fd)
{
    char said;
    ssize_t got;
    do
        got = read(fd, &said, 1);
    while (got < 0 && errno == EINTR);
    return got == 1;
}

static enum kiln_code say_none(struct kiln_err *err)
{
    return kiln_fail_errno(err, errno, "cannot start a process in a namespace of its own");
}

/* It has settled.  Where one could not, it has said why: nobody can be forked into its namespace
 * any more, for want of memory as the system calls it. */
static enum kiln_code start_first(supervisor_give_up *give_up, void *context, pid_t *ret_first,
                                  struct kiln_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return say_none(err);
    pid_t first = fork();
    if (first == 0) {
        close(ends[0]);
        be_first(ends[1], give_up, context);
    }
    enum kiln_code rc = first < 0 ? say_none(err) : KILN_OK;
    close(ends[1]);
    if (!rc && !has_settled(ends[0])) {
        end(first);
        rc = kiln_fail(err, KILN_UNAVAILABLE, "the first process of its namespace ended at once");
    }
    close(ends[0]);
    *ret_first = first;
    return rc;
}

enum kiln_code supervisor_fork(supervisor_give_up *give_up, void *context, struct kiln_err *err)
{
    pid_t starter = getppid(), first = -1;
    enum kiln_code rc = start_first(give_up, context, &first, err);
    if (rc)
        return rc;
    pid_t worker = fork();
    if (worker > 0)
        keep(first, worker, starter, give_up, context);
    if (worker == 0)
        return KILN_OK;
    rc = say_none(err);
    end(first);
    return rc;
}
