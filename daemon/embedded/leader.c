/* SPDX-License-Identifier: MIT */
#include "daemon/embedded/leader.h"

#include "common/clock.h"
#include "common/messages.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MS 1000000ull
#define BUSY_PAUSE_MS 5

/* Its own queue of new connections may be full for a moment. */
static enum kiln_code open_socket(const char *path, uint64_t deadline_ns, int *ret_fd,
                                  struct kiln_err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a socket");
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        int errnum = errno;
        if (errnum == EAGAIN && clock_monotonic_ns() < deadline_ns) {
            (void)poll(NULL, 0, BUSY_PAUSE_MS);
            continue;
        }
        close(fd);
        if (errnum == ENOENT || errnum == ECONNREFUSED)
            return kiln_fail(err, KILN_UNAVAILABLE, "nobody listens on '%s'", path);
        if (errnum == EAGAIN)
            return kiln_fail(err, KILN_TIMED_OUT, "too many wait for '%s'", path);
        return kiln_fail_errno(err, errnum, "cannot connect to '%s'", path);
    }
    *ret_fd = fd;
    return KILN_OK;
}

/* Whoever may write to the folder could listen there. */
static enum kiln_code check_owner(int fd, const char *path, struct kiln_err *err)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return kiln_fail_errno(err, errno, "cannot tell who listens on '%s'", path);
    if (peer.uid != geteuid())
        return kiln_fail(err, KILN_DENIED, "user %u, who is not this one, listens on '%s'",
                         (unsigned)peer.uid, path);
    return KILN_OK;
}

static enum kiln_code say_hello(int fd, struct kiln_err *err)
{
    uint8_t raw[FRAME_HEADER_SIZE + 256] = { 0 };
    struct buffer frame = {
        .data = raw, .size = FRAME_HEADER_SIZE, .capacity = sizeof(raw), .limit = sizeof(raw)
    };
    const struct message_hello hello = { .oldest_version = FRAME_VERSION_OLDEST,
                                         .newest_version = FRAME_VERSION,
                                         .capabilities = CAPABILITIES_HERE,
                                         .software = bytes_of_text("libkiln " KILN_VERSION) };
    message_hello_write(&frame, &hello);
    const struct frame_header header = { .version = FRAME_VERSION,
                                         .type = MESSAGE_hello,
                                         .request_id = 1,
                                         .body_size = (uint32_t)(frame.size - FRAME_HEADER_SIZE) };
    frame_header_write(raw, &header);
    if (frame.failed || send(fd, raw, frame.size, MSG_NOSIGNAL) != (ssize_t)frame.size)
        return kiln_fail(err, KILN_UNAVAILABLE, "the process that served is gone");
    return KILN_OK;
}

/* What it says is for the connection that counts; that it says anything is enough here. */
static enum kiln_code wait_for_word(int fd, uint64_t deadline_ns, const char *path,
                                    struct kiln_err *err)
{
    char first;
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    for (;;) {
        uint64_t now = clock_monotonic_ns();
        if (now >= deadline_ns)
            return kiln_fail(err, KILN_TIMED_OUT,
                             "the process that serves '%s' does not answer: it is stopped or stuck",
                             path);
        int n = poll(&ready, 1, (int)((deadline_ns - now) / MS) + 1);
        if (n > 0)
            break;
    }
    return recv(fd, &first, 1, MSG_DONTWAIT) == 1
               ? KILN_OK
               : kiln_fail(err, KILN_UNAVAILABLE, "the process that served is gone");
}

enum kiln_code leader_connect(const char *path, uint64_t deadline_ns, int *ret_fd,
                              struct kiln_err *err)
{
    int fd = -1;
    enum kiln_code rc = open_socket(path, deadline_ns, &fd, err);
    if (rc)
        return rc;
    rc = check_owner(fd, path, err);
    if (!rc)
        rc = say_hello(fd, err);
    if (!rc)
        rc = wait_for_word(fd, deadline_ns, path, err);
    close(fd);
    return rc ? rc : open_socket(path, deadline_ns, ret_fd, err);
}
