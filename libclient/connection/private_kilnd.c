/* SPDX-License-Identifier: MIT */
/*
 * Connects to this user's private kilnd, and starts one if none runs.
 *
 * Several processes may try to start a kilnd at the same time.  The process that locks the lock
 * file creates the listening socket, and the new kilnd inherits socket and lock.  As soon as the
 * socket exists, Linux accepts connections, even before kilnd runs. kilnd holds the lock until it
 * exits.  The other processes connect to the socket.  A process must try again in two cases:
 * another process has locked the file but has not created the socket yet, which takes some
 * microseconds; or the previous kilnd is exiting.
 */
#include "libclient/connection/substitute.h"

#include "common/base/clock.h"
#include "common/base/detached.h"
#include "common/protocol/private_directories.h"
#include "common/protocol/server_socket.h"
#include "libclient/connection/transport_socket.h"
#include "libclient/load_lock.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kiln/client.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef KILN_KILND_FROM_LIBRARY
#define KILN_KILND_FROM_LIBRARY "../bin/kilnd"
#endif
#define PROGRAM_VARIABLE "KILN_KILND"
#define RETRY_MS 1
/* After this many successive connections that ended without an answer, kilnd counts as unable to
 * start. */
#define FAILURES_MAX 2
#define LOG_TAIL 2048

static bool is_program(char path[PATH_TEXT_MAX], const char *directory, size_t size,
                       const char *name)
{
    int length = snprintf(path, PATH_TEXT_MAX, "%.*s/%s", (int)size, directory, name);
    return size && directory[0] == '/' && length > 0 && length < PATH_TEXT_MAX &&
           access(path, X_OK) == 0;
}

/* Looks in libkiln's directory, then in the places where a build tree and an installed tree have
 * programs. */
static bool find_near_library(char path[PATH_TEXT_MAX])
{
    static const char *const names[] = { "kilnd", "../bin/kilnd", KILN_KILND_FROM_LIBRARY };
    char self[PATH_TEXT_MAX];
    Dl_info us;
    const char *slash =
        dladdr(&substitute, &us) && us.dli_fname ? strrchr(us.dli_fname, '/') : NULL;
    if (!slash)
        return false;
    snprintf(self, sizeof(self), "%s", us.dli_fname);
    size_t size = (size_t)(slash - us.dli_fname);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && size < sizeof(self); i++) {
        if (is_program(path, self, size, names[i]))
            return true;
    }
    return false;
}

static enum kiln_code find_program(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    const char *named = secure_getenv(PROGRAM_VARIABLE);
    if (named && named[0] && named[0] != '/')
        return kiln_fail(err, KILN_INVALID,
                         PROGRAM_VARIABLE " is '%.200s': set it to an absolute path", named);
    if (named && named[0]) {
        snprintf(path, PATH_TEXT_MAX, "%s", named);
        return access(path, X_OK) == 0
                   ? KILN_OK
                   : kiln_fail_errno(err, errno, "cannot run '%s' (" PROGRAM_VARIABLE ")", path);
    }
    if (find_near_library(path))
        return KILN_OK;
    const char *at = secure_getenv("PATH");
    while (at && *at) {
        size_t size = strcspn(at, ":");
        if (is_program(path, at, size, "kilnd"))
            return KILN_OK;
        at += size + (at[size] == ':');
    }
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "there is no program 'kilnd' near libkiln or in PATH: install the package "
                     "kiln, or set " PROGRAM_VARIABLE " to the program");
}

/* Copies the environment for kilnd.  Leaves out the variables that only concern the job's process:
 * those that load libraries into the process, and those with which it reports to a service
 * manager. */
static char **copy_environment(void)
{
    static const char *const left_out[] = {
        "LD_PRELOAD=", "LD_AUDIT=", "NOTIFY_SOCKET=",  "WATCHDOG_",
        "LISTEN_",     "FDSTORE=",  "JOURNAL_STREAM=", "SYSTEMD_EXEC_PID="
    };
    size_t count = 0, max = 0;
    while (environ && environ[max])
        max++;
    char **copy = calloc(max + 1, sizeof(*copy));
    for (char **at = environ; copy && count < max && *at; at++) {
        bool is_left_out = false;
        for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
            is_left_out |= strncmp(*at, left_out[i], strlen(left_out[i])) == 0;
        if (!is_left_out)
            copy[count++] = *at;
    }
    return copy;
}

static enum kiln_code take_lock(const struct private_directories *f, int *ret_fd,
                                struct kiln_err *err)
{
    pid_t holder;
    enum kiln_code rc = server_lock_take(f->lock, ret_fd, &holder, err);
    return rc == KILN_BUSY ? kiln_while(err, "waiting for the kilnd at '%s'", f->socket) : rc;
}

static int open_log(const struct private_directories *f)
{
    char path[PATH_TEXT_MAX + 16];
    snprintf(path, sizeof(path), "%s/kilnd.log", f->cache);
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void read_last_log_line(const struct private_directories *f, char *text, size_t size)
{
    char path[PATH_TEXT_MAX + 16], tail[LOG_TAIL + 1] = "";
    snprintf(path, sizeof(path), "%s/kilnd.log", f->cache);
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t got = fd < 0 ? 0 : pread(fd, tail, LOG_TAIL, end > LOG_TAIL ? end - LOG_TAIL : 0);
    while (got > 0 && tail[got - 1] == '\n')
        got--;
    tail[got > 0 ? got : 0] = '\0';
    const char *line = strrchr(tail, '\n');
    snprintf(text, size, "%.*s", (int)size - 1, line ? line + 1 : tail);
}

static enum kiln_code run_kilnd(const struct private_directories *f, int socket_fd, int lock_fd,
                                struct kiln_err *err)
{
    char program[PATH_TEXT_MAX];
    enum kiln_code rc = find_program(program, err);
    if (rc)
        return rc;
    KILN_AUTO(fd) int log_fd = open_log(f);
    if (log_fd < 0)
        return kiln_fail_errno(err, errno, "cannot open the log in '%s'", f->cache);
    KILN_AUTO(mem) char **environment = copy_environment();
    if (!environment)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to start kilnd");
    char *const arguments[] = { program, (char[]){ "--private" }, NULL };
    const int files[] = { log_fd, log_fd, socket_fd, lock_fd };
    const struct detached kilnd = { .program = program,
                                    .arguments = arguments,
                                    .environment = environment,
                                    .files = files,
                                    .file_count = 4 };
    int errnum = detached_start(&kilnd);
    return errnum ? kiln_fail_errno(err, errnum, "cannot run '%s'", program) : KILN_OK;
}

/* Starts a private kilnd.  Returns KILN_BUSY if another process is starting one, or if one is
 * exiting.  Holds the load lock, which delays fork() in other threads: a forked child of the job
 * would inherit the lock file and the socket, and keep them open. */
static enum kiln_code start_kilnd(const struct private_directories *f, struct kiln_err *err)
{
    int lock_fd = -1, socket_fd = -1;
    load_lock();
    enum kiln_code rc = take_lock(f, &lock_fd, err);
    if (!rc) {
        /* This process holds the lock now, so the socket is from a kilnd that has exited. */
        (void)unlink(f->socket);
        rc = server_socket_listen(f->socket, 0600, (gid_t)-1, &socket_fd, err);
    }
    if (!rc)
        rc = run_kilnd(f, socket_fd, lock_fd, err);
    if (rc && socket_fd >= 0)
        (void)unlink(f->socket);
    if (socket_fd >= 0)
        close(socket_fd);
    if (lock_fd >= 0)
        close(lock_fd);
    load_unlock();
    return rc;
}

static enum kiln_code refuse_to_start_again(struct substitute_use *use,
                                            const struct private_directories *f,
                                            struct kiln_err *err)
{
    char why[256];
    read_last_log_line(f, why, sizeof(why));
    use->failures = 0;
    return kiln_fail(err, KILN_IO,
                     "the private kilnd exits right after its start: %s ('%s/kilnd.log')", why,
                     f->cache);
}

static enum kiln_code connect_or_start(struct substitute_use *use,
                                       const struct private_directories *f, uint64_t deadline_ns,
                                       struct transport **ret_transport, struct kiln_err *err)
{
    for (;;) {
        enum kiln_code rc = transport_socket_connect(f->socket, ret_transport, err);
        if (rc == KILN_UNAVAILABLE && use->failures >= FAILURES_MAX)
            return refuse_to_start_again(use, f, err);
        if (rc == KILN_UNAVAILABLE) {
            rc = start_kilnd(f, err);
            if (!rc)
                continue;
        }
        if (rc != KILN_BUSY)
            return rc;
        if (clock_monotonic_ns() >= deadline_ns) {
            err->code = KILN_TIMED_OUT;
            return err->code;
        }
        (void)poll(NULL, 0, RETRY_MS);
    }
}

static enum kiln_code connect_private(struct substitute_use *use, uint64_t deadline_ns,
                                      struct transport **ret_transport, struct kiln_err *err)
{
    struct private_directories f;
    if (getauxval(AT_SECURE))
        return kiln_fail(err, KILN_DENIED,
                         "a program with more rights than its caller (setuid, file capabilities) "
                         "does not start a private kilnd");
    enum kiln_code rc = private_directories_find(&f, err);
    if (rc)
        return rc;
    const char *why = f.why_temporary;
    snprintf(use->place, sizeof(use->place),
             "a private kilnd serves, which stores kernels in '%.200s'%s%.160s%s", f.cache,
             *why ? ", temporarily (" : "", why, *why ? ")" : "");
    return connect_or_start(use, &f, deadline_ns, ret_transport, err);
}

const struct substitute substitute = { .mode = "private",
                                       .level = KILN_LEVEL_PRIVATE,
                                       .connect = connect_private };
