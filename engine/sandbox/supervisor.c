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
#define FILES_MAX (1 << 20)

/* Replaces closefrom(3), which aborts if close_range(2) fails and /proc is missing. An old kernel
 * or a container's filter may reject close_range, and the worker may have hidden /proc. */
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

/* Closes all descriptors except standard output and error, and drops the privileges. Sets the
 * parent's death signal last, because a change of user clears it. */
static void drop_everything(const char *name, supervisor_give_up *give_up, void *context)
{
    prctl(PR_SET_NAME, name);
    close_from(STDERR_FILENO + 1);
    close(STDIN_FILENO);
    if (!give_up(context))
        _exit(EXIT_LOST);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Notifies the supervisor that init is ready. Returns false if the supervisor has ended. If the
 * supervisor ended before init set PR_SET_PDEATHSIG, init gets no signal, but the write fails,
 * because the pipe has no reader. */
static bool report_ready(int ready_fd)
{
    ssize_t put;
    signal(SIGPIPE, SIG_IGN);
    do
        put = write(ready_fd, "", 1);
    while (put < 0 && errno == EINTR);
    return put == 1;
}

_Noreturn static void run_init(int ready_fd, supervisor_give_up *give_up, void *context)
{
    dup2(ready_fd, STDOUT_FILENO);
    drop_everything("kiln-init", give_up, context);
    close(STDERR_FILENO);
    if (!report_ready(STDOUT_FILENO))
        _exit(EXIT_LOST);
    close(STDOUT_FILENO);
    signal(SIGCHLD, SIG_IGN); /* processes whose parent has ended become children of init; the
                               * kernel reaps them */
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

static void kill_namespace(pid_t init)
{
    kill(init, SIGKILL);
    wait_for(init); /* Linux reports the end of init only when no process is left in the
                     * namespace */
}

_Noreturn static void exit_like_worker(int status)
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

/* Runs the supervisor until the worker ends. |starter| was the parent of this process when
 * supervisor_fork was called. If |starter| ended before PR_SET_PDEATHSIG was set, Linux sends no
 * signal, but getppid() returns another number. */
_Noreturn static void run_supervisor(pid_t init, pid_t worker, pid_t starter,
                                     supervisor_give_up *give_up, void *context)
{
    drop_everything("kiln-supervisor", give_up, context);
    if (getppid() != starter)
        /* Linux then kills init (PR_SET_PDEATHSIG), and with init all processes of the
         * namespace. */
        _exit(EXIT_LOST);
    close(STDOUT_FILENO);
    int status = wait_for(worker);
    kill_namespace(init);
    exit_like_worker(status);
}

/* Waits until init has dropped its privileges. Returns false if init ended. The supervisor must not
 * drop its own privileges before that: without privileges, it can only kill an init that has the
 * same user. Killing init ends all processes of the namespace. */
static bool wait_until_ready(int fd)
{
    char said;
    ssize_t got;
    do
        got = read(fd, &said, 1);
    while (got < 0 && errno == EINTR);
    return got == 1;
}

static enum kiln_code fail_start(struct kiln_err *err)
{
    return kiln_fail_errno(err, errno, "cannot start a process in a private process namespace");
}

/* Starts init, and waits until it is ready. Without the wait, init could end before the worker is
 * forked. The fork would then fail with ENOMEM (pid_namespaces(7)), which does not say what went
 * wrong. */
static enum kiln_code start_init(supervisor_give_up *give_up, void *context, pid_t *ret_init,
                                 struct kiln_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_start(err);
    pid_t init = fork();
    if (init == 0) {
        close(ends[0]);
        run_init(ends[1], give_up, context);
    }
    enum kiln_code rc = init < 0 ? fail_start(err) : KILN_OK;
    close(ends[1]);
    if (!rc && !wait_until_ready(ends[0])) {
        kill_namespace(init);
        rc = kiln_fail(err, KILN_UNAVAILABLE,
                       "the init process of the compiler's namespace ended during its start");
    }
    close(ends[0]);
    *ret_init = init;
    return rc;
}

enum kiln_code supervisor_fork(supervisor_give_up *give_up, void *context, struct kiln_err *err)
{
    pid_t starter = getppid(), init = -1;
    enum kiln_code rc = start_init(give_up, context, &init, err);
    if (rc)
        return rc;
    pid_t worker = fork();
    if (worker > 0)
        run_supervisor(init, worker, starter, give_up, context);
    if (worker == 0)
        return KILN_OK;
    rc = fail_start(err);
    kill_namespace(init);
    return rc;
}
