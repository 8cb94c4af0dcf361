/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/snapshot.h"

#include "cli/kilnctl/snapshot_program.h"
#include "cli/kilnctl/transfer_start.h"
#include "cli/output.h"
#include "common/base/clock.h"
#include "common/base/fd_message.h"
#include "common/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ANSWER_MAX (32u << 10)

static bool has_companion(const char *path, const char *suffix)
{
    char companion[PATH_MAX];
    struct stat seen;
    int size = snprintf(companion, sizeof(companion), "%s%s", path, suffix);
    return size > 0 && (size_t)size < sizeof(companion) && stat(companion, &seen) == 0 &&
           seen.st_size > 0;
}

bool snapshot_has_log(const char *path)
{
    return has_companion(path, "-wal") || has_companion(path, "-journal");
}

static int check_regular(const char *path, int fd, struct kiln_error *err)
{
    struct stat seen;
    if (fstat(fd, &seen) != 0)
        return cli_fail_errno(err, errno, "cannot examine '%s'", path);
    if (!S_ISREG(seen.st_mode))
        return cli_fail(err, KILN_E_INVALID, "'%s' is not a regular file", path);
    return KILN_E_OK;
}

int snapshot_open_plain(const char *path, int *ret_fd, struct kiln_error *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return cli_fail(err, KILN_E_NOT_FOUND, "there is no '%s'", path);
    if (fd < 0)
        return cli_fail_errno(err, errno, "cannot open '%s'", path);
    int rc = check_regular(path, fd, err);
    if (rc)
        return rc;
    *ret_fd = fd;
    fd = -1;
    return KILN_E_OK;
}

/* Receives kiln-transfer's answer and appends a NUL. Returns 0 if kiln-transfer ended without an
 * answer. */
static ssize_t receive_answer(int socket, char text[ANSWER_MAX + 1], int *ret_fd)
{
    int flags = 0;
    struct iovec space = { .iov_base = text, .iov_len = ANSWER_MAX };
    ssize_t got = fd_message_receive(socket, space, ret_fd, 1, &flags);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

static int read_answer(const char *path, const char *text, int fd, struct snapshot *snapshot,
                       struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(json) struct json *json = NULL;
    if (json_parse(bytes_of_text(text), "kiln-transfer's answer", &json, &why))
        return cli_fail_json(err, &why);
    int code = (int)json_get_u64(json, "code", KILN_E_CORRUPT);
    if (code)
        return cli_fail(err, code, "%s", json_get_text(json, "text", kiln_error_text(code)));
    if (fd < 0)
        return cli_fail(err, KILN_E_CORRUPT, "kiln-transfer opened no file");
    snapshot->merged = json_get_bool(json, "merged", false);
    snprintf(snapshot->note, sizeof(snapshot->note), "%s", json_get_text(json, "note", ""));
    output_clean(snapshot->note, false);
    return check_regular(path, fd, err);
}

static int wait_for_end(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

struct snapshot_run {
    const char *path;
    uint64_t deadline_ns;
    int socket;
    pid_t pid;
};

static bool wait_for_answer(const struct snapshot_run *run)
{
    struct pollfd readable = { .fd = run->socket, .events = POLLIN };
    int n = 0;
    do {
        uint64_t now = clock_monotonic_ns();
        uint64_t left_ms = run->deadline_ns > now ? (run->deadline_ns - now) / 1000000u + 1 : 0;
        n = poll(&readable, 1, left_ms < INT_MAX ? (int)left_ms : -1);
    } while (n < 0 && errno == EINTR);
    return n != 0;
}

static int query_program(const struct snapshot_run *run, struct snapshot *snapshot,
                         struct kiln_error *err)
{
    const char *path = run->path;
    KILN_AUTO(mem) char *text = malloc(ANSWER_MAX + 1);
    KILN_AUTO(fd) int fd = -1;
    bool is_late = !wait_for_answer(run);
    if (is_late) /* at SIGTERM, kiln-transfer removes its copy */
        kill(run->pid, SIGTERM);
    ssize_t got = text ? receive_answer(run->socket, text, &fd) : 0;
    int status = wait_for_end(run->pid);
    if (is_late)
        return cli_fail(err, KILN_E_TIMED_OUT, "reading '%s' took longer than --timeout", path);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory while opening '%s'", path);
    if (got <= 0)
        return cli_fail(err, KILN_E_IO,
                        "kiln-transfer gave no answer for '%s' and ended with %s %d", path,
                        WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    int rc = read_answer(path, text, fd, snapshot, err);
    if (rc)
        return rc;
    snapshot->fd = fd;
    fd = -1;
    return KILN_E_OK;
}

static int run_program(struct snapshot_run *run, const char *program, enum snapshot_of what,
                       struct snapshot *snapshot, struct kiln_error *err)
{
    char *const argv[] = { (char *)(uintptr_t) "kiln-transfer", (char *)(uintptr_t) "--snapshot",
                           (char *)(uintptr_t)run->path,
                           what == SNAPSHOT_TUNING ? (char *)(uintptr_t) "--salvage" : NULL, NULL };
    int rc = transfer_start(program, argv, &run->socket, &run->pid, err);
    if (rc)
        return rc;
    rc = query_program(run, snapshot, err);
    close(run->socket);
    return rc;
}

int snapshot_open(const char *path, enum snapshot_of what, uint64_t deadline_ns,
                  struct snapshot *ret_snapshot, struct kiln_error *err)
{
    struct snapshot snapshot = { .fd = -1 };
    struct snapshot_run run = { .path = path, .deadline_ns = deadline_ns };
    char program[PATH_MAX];
    int rc = KILN_E_OK;
    if (snapshot_program_find(program))
        rc = run_program(&run, program, what, &snapshot, err);
    else if (snapshot_has_log(path))
        rc =
            cli_fail(err, KILN_E_UNSUPPORTED,
                     "'%s' is in use: there is a log next to it.  The program kiln-transfer, which "
                     "could read it safely, is not installed: install it, or end the programs "
                     "that use the file",
                     path);
    else
        rc = snapshot_open_plain(path, &snapshot.fd, err);
    if (!rc)
        *ret_snapshot = snapshot;
    return rc;
}
