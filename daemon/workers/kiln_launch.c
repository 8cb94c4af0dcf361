/* SPDX-License-Identifier: MIT */
/*
 * kiln-launch: starts one process for kilnd, in a unit of the service manager's, or several for the
 * engine in a job's process, whose children they are not to be.
 *
 *     kiln-launch PROGRAM
 *     descriptor 3 is a connection of kilnd's (a socket unit with Accept=yes); LISTEN_FDS says so
 *
 *     kiln-launch --keep
 *     descriptor 3 is a connection of the engine's, by which programs come, each with a connection
 *     of its own (daemon/workers/keeper.h)
 *
 *   main     waits for what to start (daemon/workers/launch.h)
 *   become   in the child: the connection's descriptor 3, its folder, its program
 *   keep     tells kilnd that it started; kills it when kilnd says so or goes; tells how it ended
 *   serve    --keep: has a child do all of this for each program, until the engine goes
 *
 * So kilnd needs neither the rights to become another user nor a network for those that do.  When
 * this program ends, the service manager ends whatever the process left running; with --keep it
 * does so itself.
 *
 * A job forks: the other end of the connection may be open in processes that outlive it.  So this
 * program watches the job's own process as well.
 */
#include "common/cleanup.h"
#include "daemon/workers/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define GIVEN_FD 3
#define EXIT_USAGE 2
#define EXIT_SURROUNDINGS 4
#define EXIT_NO_PROGRAM 127

/* What looks for leaks has to look into this process, which nobody may. */
#if defined(__SANITIZE_ADDRESS__)
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#endif

static int usage(FILE *to, int status)
{
    fprintf(to, "usage: kiln-launch PROGRAM, or kiln-launch --keep\n"
                "Started by the service manager with a connection of kilnd's as descriptor 3, or "
                "(--keep)\nby the engine in a job's process with one of its own; of no use by "
                "hand.\n");
    return status;
}

static bool is_given_connection(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    return pid && count && strtol(pid, NULL, 10) == (long)getpid() && strcmp(count, "1") == 0;
}

static bool make_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* Out of the way of the other descriptor 3. */
static int take_connection(void)
{
    int control = fcntl(GIVEN_FD, F_DUPFD_CLOEXEC, GIVEN_FD + 1);
    if (control < 0)
        return -1;
    close(GIVEN_FD);
    return make_blocking(control) ? control : -1;
}

static bool redirect(int fd, int to)
{
    return fd == to ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, to) == to;
}

/* Does not return. */
static void become(const char *program, const struct launch_received *request)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    if (nothing < 0 || (request->folder >= 0 && fchdir(request->folder) != 0) ||
        !redirect(nothing, STDIN_FILENO) || !redirect(nothing, STDOUT_FILENO) ||
        !redirect(request->fd_3, GIVEN_FD)) {
        fprintf(stderr, "kiln-launch: cannot set up '%s': %s\n", program, strerror(errno));
        _exit(EXIT_SURROUNDINGS);
    }
    execv(program, request->arguments);
    fprintf(stderr, "kiln-launch: cannot run '%s': %s\n", program, strerror(errno));
    _exit(EXIT_NO_PROGRAM);
}

/* Its group, and itself where it is no leader of one yet. */
static void end(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}

static void tell_end(int control, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    const struct launch_report report = { .news = LAUNCH_ENDED,
                                          .status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                                          .signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0 };
    launch_send_report(control, &report);
}

/* kilnd has nothing more to say, so whatever comes is its end; |other_fd| is of its process, or
 * -1. */
static void keep(int control, pid_t pid, int pid_fd, int other_fd)
{
    const struct launch_report started = { .news = LAUNCH_STARTED,
                                           .pid = (uint32_t)pid,
                                           .uid = (uint32_t)getuid() };
    struct pollfd polled[] = { { .fd = pid_fd, .events = POLLIN },
                               { .fd = control, .events = POLLIN | POLLRDHUP },
                               { .fd = other_fd, .events = POLLIN } };
    launch_send_report(control, &started);
    for (;;) {
        int count = poll(polled, sizeof(polled) / sizeof(polled[0]), -1);
        if (count < 0 && errno != EINTR)
            break;
        if (count > 0 && polled[0].revents)
            break;
        if (count > 0 && (polled[1].revents || polled[2].revents)) {
            polled[1].fd = polled[2].fd = -1;
            end(pid);
        }
    }
    end(pid); /* it is not reaped yet, so its number is nobody else's */
    tell_end(control, pid);
}

/* No service manager does it for one that is kept.  Orphans come here, whatever session they have
 * put themselves into, and would come to the job next. */
static void end_rest(void)
{
    int pid;
    do {
        FILE *children = fopen("/proc/thread-self/children", "re");
        while (children && fscanf(children, "%d", &pid) == 1)
            kill(pid, SIGKILL);
        if (children)
            fclose(children);
    } while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
}

/* Whoever is at the other end; -1 with errno set. */
static int watch_other(int control)
{
    struct ucred other;
    socklen_t size = sizeof(other);
    if (getsockopt(control, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, other.pid, 0);
}

static int start(int control, const char *program, bool is_kept, struct launch_received *request)
{
    pid_t pid = fork();
    if (pid < 0) {
        fprintf(stderr, "kiln-launch: cannot start '%s': %s\n", program, strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    if (pid == 0)
        become(program, request);
    fd_auto(&request->fd_3);
    fd_auto(&request->folder);
    KILN_AUTO(fd) int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    KILN_AUTO(fd) int other_fd = is_kept && pid_fd >= 0 ? watch_other(control) : -1;
    if (pid_fd < 0 || (is_kept && other_fd < 0)) {
        fprintf(stderr, "kiln-launch: cannot watch '%s': %s\n", program, strerror(errno));
        end(pid);
        tell_end(control, pid);
        return EXIT_SURROUNDINGS;
    }
    keep(control, pid, pid_fd, other_fd);
    if (is_kept)
        end_rest();
    return EXIT_SUCCESS;
}

/* What came by |control|. */
static int launch(int control, const char *program, bool is_kept)
{
    static struct launch_received request;
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = launch_receive_request(control, &request, &err);
    if (rc == KILN_NOT_FOUND)
        return EXIT_SUCCESS;
    if (rc) {
        fprintf(stderr, "kiln-launch: %s\n", err.text);
        return EXIT_SURROUNDINGS;
    }
    return start(control, program, is_kept, &request);
}

/* ---- for the engine in a job ---- */

/* In a child: with the standard error that came. */
static int launch_kept(const struct launch_received *given)
{
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!redirect(given->folder, STDERR_FILENO) || !make_blocking(given->fd_3)) {
        fprintf(stderr, "kiln-launch: cannot take a connection: %s\n", strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    return launch(given->fd_3, given->arguments[0], /* is_kept= */ true);
}

/* False once whoever is at the other end is gone. */
static bool wait_for_more(int control, int other_fd)
{
    struct pollfd polled[] = { { .fd = control, .events = POLLIN },
                               { .fd = other_fd, .events = POLLIN } };
    while (poll(polled, 2, -1) < 0) {
        if (errno != EINTR)
            return false;
    }
    return !polled[1].revents;
}

static bool take_one(int control, struct launch_received *ret_given)
{
    struct kiln_err ignored = KILN_ERR_INIT; /* nobody reads what we say */
    return launch_receive_request(control, ret_given, &ignored) == KILN_OK &&
           ret_given->folder >= 0 && ret_given->arguments[0][0] == '/';
}

/* Each child ends with its own connection: none is left when this returns.  One that cannot be
 * started is one whose connection is closed. */
static int serve(int control)
{
    static struct launch_received given;
    KILN_AUTO(fd) int other_fd = watch_other(control);
    if (other_fd < 0)
        return EXIT_SURROUNDINGS;
    signal(SIGCHLD, SIG_IGN); /* they are reaped by the system */
    while (wait_for_more(control, other_fd) && take_one(control, &given)) {
        if (fork() == 0) {
            close(control);
            return launch_kept(&given);
        }
        fd_auto(&given.fd_3);
        fd_auto(&given.folder);
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, EXIT_SUCCESS);
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return printf("kiln-launch %s\n", KILN_VERSION) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    bool is_keeper = argc == 2 && strcmp(argv[1], "--keep") == 0;
    if (argc != 2 || (!is_keeper && argv[1][0] != '/'))
        return usage(stderr, EXIT_USAGE);
    if (!is_keeper && !is_given_connection()) {
        fprintf(stderr, "kiln-launch: no connection was handed over (LISTEN_FDS); it is started by "
                        "the service manager\n");
        return EXIT_USAGE;
    }
    prctl(PR_SET_DUMPABLE, 0); /* other processes of this user cannot look in */
    KILN_AUTO(fd) int control = take_connection();
    if (control < 0) {
        fprintf(stderr, "kiln-launch: cannot take the connection: %s\n", strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    return is_keeper ? serve(control) : launch(control, argv[1], /* is_kept= */ false);
}
