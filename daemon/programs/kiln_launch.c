/* SPDX-License-Identifier: MIT */
/*
 * kiln-launch: starts one process for kilnd, in a unit of the service manager.  With --keep, starts
 * compilers for a program that has the engine linked in (libkiln.a).  These compilers must not be
 * children of that program.
 *
 *     kiln-launch PROGRAM
 *     descriptor 3 is a connection to kilnd (a socket unit with Accept=yes), as LISTEN_FDS says
 *
 *     kiln-launch --keep
 *     descriptor 3 is a connection to the program with the engine, which sends one request for each
 *     program to start; each request has a connection of its own (daemon/built_in/one_compiler.c)
 *
 *   keep_process    reports the start to kilnd; kills the process when kilnd asks for it or ends;
 *                   reports how the process ended
 *   serve_requests  --keep: forks a child for each request; returns when the engine ends
 *
 * With kiln-launch, kilnd itself needs neither the right to become another user nor access to the
 * network.  When kiln-launch ends, the service manager ends everything that the process left
 * running.  With --keep, kiln-launch ends all of it itself.
 *
 * If the program with the engine forks, its children have the other end of the connection open, and
 * may outlive that program.  So with --keep, kiln-launch also watches the process of that program.
 */
#include "common/base/cleanup.h"
#include "common/base/units.h"
#include "daemon/programs/launch.h"
#include "daemon/programs/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define GIVEN_FD 3
#define EXIT_USAGE 2
#define EXIT_SURROUNDINGS 4
#define EXIT_NO_PROGRAM 127

/* LeakSanitizer would have to read this process's memory, which no process may do. */
#if defined(__SANITIZE_ADDRESS__)
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#endif

static int usage(FILE *to, int status)
{
    fprintf(to, "usage: kiln-launch PROGRAM, or kiln-launch --keep\n"
                "Starts PROGRAM for kilnd.  The service manager starts kiln-launch with a "
                "connection from\nkilnd as descriptor 3.  With --keep, the engine in a job's "
                "process starts it.\n");
    return status;
}

static bool is_given_connection(void)
{
    uint64_t pid = 0, count = 0;
    return units_parse_number(getenv("LISTEN_PID"), INT_MAX, &pid) && pid == (uint64_t)getpid() &&
           units_parse_number(getenv("LISTEN_FDS"), 1, &count) && count == 1;
}

static bool make_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* Moves the connection to another number, because descriptor 3 is for the socket of the program to
 * start. */
static int take_connection(void)
{
    int control = fcntl(GIVEN_FD, F_DUPFD_CLOEXEC, GIVEN_FD + 1);
    if (control < 0)
        return -1;
    close(GIVEN_FD);
    return make_blocking(control) ? control : -1;
}

static bool redirect_descriptor(int fd, int to)
{
    return fd == to ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, to) == to;
}

static void become_program(const char *program, pid_t parent, const struct launch_received *request)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_SURROUNDINGS);
    setsid();
    if (nothing < 0 || (request->directory >= 0 && fchdir(request->directory) != 0) ||
        !redirect_descriptor(nothing, STDIN_FILENO) ||
        !redirect_descriptor(nothing, STDOUT_FILENO) ||
        !redirect_descriptor(request->fd_3, GIVEN_FD)) {
        fprintf(stderr, "kiln-launch: cannot set up '%s': %s\n", program, strerror(errno));
        _exit(EXIT_SURROUNDINGS);
    }
    execv(program, request->arguments);
    fprintf(stderr, "kiln-launch: cannot run '%s': %s\n", program, strerror(errno));
    _exit(EXIT_NO_PROGRAM);
}

static void end_group(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}

static void report_end(int control, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    const struct launch_report report = { .kind = LAUNCH_ENDED,
                                          .status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                                          .signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0 };
    launch_send_report(control, &report);
}

static int wait_for_news(struct pollfd polled[3], const struct watched *process,
                         const struct watched *other)
{
    int ms = watched_pause_ms(process);
    if (ms < 0 && other)
        ms = watched_pause_ms(other);
    return poll(polled, 3, ms);
}

/* Waits until the process ends, or kills it if the connection ends. kilnd sends no more messages,
 * so any event on |control| means that the connection has ended.  |other| is the process at the
 * connection's other end, or NULL. */
static void keep_process(int control, const struct watched *process, const struct watched *other)
{
    const struct launch_report started = { .kind = LAUNCH_STARTED,
                                           .pid = (uint32_t)process->pid,
                                           .uid = (uint32_t)getuid() };
    struct pollfd polled[] = { { .fd = process->fd, .events = POLLIN },
                               { .fd = control, .events = POLLIN | POLLRDHUP },
                               { .fd = other ? other->fd : -1, .events = POLLIN } };
    launch_send_report(control, &started);
    for (;;) {
        int count = wait_for_news(polled, process, other);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 || watched_has_ended(process, polled[0].revents))
            break;
        if (polled[1].revents || (other && watched_has_ended(other, polled[2].revents))) {
            polled[1].fd = polled[2].fd = -1;
            other = NULL;
            end_group(process->pid);
        }
    }
    end_group(process->pid); /* safe: the process is not reaped yet, so its pid was not reused */
    report_end(control, process->pid);
}

/* For --keep: kills everything that the process left running.  As a subreaper, kiln-launch is the
 * parent of all orphaned processes, even of other sessions.  Otherwise the program with the engine
 * could become their parent. */
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

static int watch_and_keep(int control, pid_t pid, bool is_kept)
{
    struct watched process = { .fd = -1 }, other = { .fd = -1 };
    if (!watched_begin(&process, pid) || (is_kept && !watched_begin_peer(&other, control))) {
        fprintf(stderr, "kiln-launch: cannot watch the process that started it: %s\n",
                strerror(errno));
        watched_end(&process);
        end_group(pid);
        report_end(control, pid);
        return EXIT_SURROUNDINGS;
    }
    keep_process(control, &process, is_kept ? &other : NULL);
    watched_end(&process);
    watched_end(&other);
    if (is_kept)
        end_rest();
    return EXIT_SUCCESS;
}

static int start_program(int control, const char *program, bool is_kept,
                         struct launch_received *request)
{
    pid_t own = getpid(), pid = fork();
    if (pid < 0) {
        fprintf(stderr, "kiln-launch: cannot start '%s': %s\n", program, strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    if (pid == 0)
        become_program(program, own, request);
    fd_auto(&request->fd_3);
    fd_auto(&request->directory);
    return watch_and_keep(control, pid, is_kept);
}

static int launch_program(int control, const char *program, bool is_kept)
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
    return start_program(control, program, is_kept, &request);
}

static int launch_kept(const struct launch_received *given)
{
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!redirect_descriptor(given->directory, STDERR_FILENO) || !make_blocking(given->fd_3)) {
        fprintf(stderr, "kiln-launch: cannot accept a connection: %s\n", strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    return launch_program(given->fd_3, given->arguments[0], /* is_kept= */ true);
}

static bool wait_for_more(int control, const struct watched *other)
{
    struct pollfd polled[] = { { .fd = control, .events = POLLIN },
                               { .fd = other->fd, .events = POLLIN } };
    for (;;) {
        int count = poll(polled, 2, watched_pause_ms(other));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 || watched_has_ended(other, polled[1].revents))
            return false;
        if (polled[0].revents)
            return true;
    }
}

static bool take_one(int control, struct launch_received *ret_given)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    return launch_receive_request(control, ret_given, &ignored) == KILN_OK &&
           ret_given->directory >= 0 && ret_given->arguments[0][0] == '/';
}

/* Returns when the engine has ended, and all children with it.  Each child ends when its own
 * connection ends. */
static int serve_requests(int control)
{
    static struct launch_received given;
    struct watched other;
    if (!watched_begin_peer(&other, control))
        return EXIT_SURROUNDINGS;
    signal(SIGCHLD, SIG_IGN);
    while (wait_for_more(control, &other) && take_one(control, &given)) {
        if (fork() == 0) {
            close(control);
            watched_end(&other);
            return launch_kept(&given);
        }
        fd_auto(&given.fd_3);
        fd_auto(&given.directory);
    }
    watched_end(&other);
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
    bool is_supervisor = argc == 2 && strcmp(argv[1], "--keep") == 0;
    if (argc != 2 || (!is_supervisor && argv[1][0] != '/'))
        return usage(stderr, EXIT_USAGE);
    if (!is_supervisor && !is_given_connection()) {
        fprintf(stderr,
                "kiln-launch: descriptor 3 is not a connection (LISTEN_FDS): only the service "
                "manager starts this program\n");
        return EXIT_USAGE;
    }
    prctl(PR_SET_DUMPABLE, 0); /* prevents other processes of this user from reading its memory */
    KILN_AUTO(fd) int control = take_connection();
    if (control < 0) {
        fprintf(stderr, "kiln-launch: cannot accept the connection: %s\n", strerror(errno));
        return EXIT_SURROUNDINGS;
    }
    return is_supervisor ? serve_requests(control)
                         : launch_program(control, argv[1], /* is_kept= */ false);
}
