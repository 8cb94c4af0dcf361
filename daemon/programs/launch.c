/* SPDX-License-Identifier: MIT */
#include "daemon/programs/launch.h"

#include "common/base/cleanup.h"
#include "common/base/fd_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define DESCRIPTORS_MAX 2
_Static_assert(DESCRIPTORS_MAX <= FD_MESSAGE_MAX, "they fit in one message");

enum kiln_code launch_connect(const char *service, int *ret_control, struct kiln_err *err)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(service) >= sizeof(address.sun_path))
        return kiln_fail(err, KILN_INVALID,
                         "the path '%s' is longer than the %zu bytes that sockets allow", service,
                         sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, service);
    KILN_AUTO(fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "cannot connect to '%s' (%s): is its socket unit active ('systemctl "
                         "status kiln-compiler.socket kiln-transfer.socket')?",
                         service, strerror(errno));
    *ret_control = fd;
    fd = -1;
    return KILN_OK;
}

static size_t put_arguments(const char *const *arguments, char packet[LAUNCH_PACKET_MAX])
{
    size_t used = 0;
    for (size_t i = 0; arguments[i]; i++) {
        size_t size = strlen(arguments[i]) + 1;
        if (i == LAUNCH_ARGUMENTS_MAX || size > LAUNCH_PACKET_MAX - used)
            return 0;
        memcpy(packet + used, arguments[i], size);
        used += size;
    }
    return used;
}

enum kiln_code launch_send_request(int control, const struct launch_request *request,
                                   struct kiln_err *err)
{
    char packet[LAUNCH_PACKET_MAX];
    const int fds[DESCRIPTORS_MAX] = { request->fd_3, request->directory };
    size_t count = request->directory >= 0 ? 2 : 1;
    size_t size = put_arguments(request->arguments, packet);
    if (size == 0)
        return kiln_fail(err, KILN_INVALID, "the arguments of '%s' are too long",
                         request->arguments[0]);
    ssize_t sent = fd_message_send(control, bytes_of(packet, size), fds, count, 0);
    if (sent < 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "cannot request the start of '%s': %s",
                         request->arguments[0], strerror(errno));
    return KILN_OK;
}

enum kiln_code launch_receive_report(int control, struct launch_report *ret_report)
{
    ssize_t got;
    do
        got = recv(control, ret_report, sizeof(*ret_report), MSG_DONTWAIT | MSG_TRUNC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return KILN_BUSY;
    if (got <= 0)
        return KILN_UNAVAILABLE;
    bool known = ret_report->kind == LAUNCH_STARTED || ret_report->kind == LAUNCH_ENDED;
    return got == (ssize_t)sizeof(*ret_report) && known ? KILN_OK : KILN_INVALID;
}

static bool take_arguments(struct launch_received *r, size_t size)
{
    size_t count = 0;
    if (size == 0 || size > sizeof(r->text) || r->text[size - 1] != '\0')
        return false;
    for (char *at = r->text; at < r->text + size; at += strlen(at) + 1) {
        if (count == LAUNCH_ARGUMENTS_MAX)
            return false;
        r->arguments[count++] = at;
    }
    r->arguments[count] = NULL;
    return true;
}

enum kiln_code launch_receive_request(int control, struct launch_received *ret_request,
                                      struct kiln_err *err)
{
    struct iovec space = { .iov_base = ret_request->text, .iov_len = sizeof(ret_request->text) };
    int fds[DESCRIPTORS_MAX], flags = 0;
    ssize_t got = fd_message_receive(control, space, fds, DESCRIPTORS_MAX, &flags);
    if (got == 0 || (got < 0 && errno == ECONNRESET))
        return KILN_NOT_FOUND;
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot receive the start request");
    ret_request->fd_3 = fds[0];
    ret_request->directory = fds[1];
    if (flags & (MSG_TRUNC | MSG_CTRUNC) || ret_request->fd_3 < 0 ||
        !take_arguments(ret_request, (size_t)got))
        return kiln_fail(err, KILN_INVALID, "received %zd bytes that are not a start request", got);
    return KILN_OK;
}

void launch_send_report(int control, const struct launch_report *report)
{
    ssize_t sent;
    do
        sent = send(control, report, sizeof(*report), MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
}
