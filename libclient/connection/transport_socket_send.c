/* SPDX-License-Identifier: MIT */
#include "libclient/connection/transport_socket_parts.h"

#include "common/base/fd_message.h"
#include "common/protocol/limits.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(LIMIT_REQUEST_FILES <= FD_MESSAGE_MAX, "they fit in one message");

static enum kiln_code write_some(int fd, struct bytes data, size_t *ret_sent, struct kiln_err *err)
{
    ssize_t n;
    do
        n = send(fd, data.data, data.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM)
        return kiln_fail(err, KILN_UNAVAILABLE, "kilnd closed the connection: %s", strerror(errno));
    *ret_sent = n < 0 ? 0 : (size_t)n;
    return KILN_OK;
}

static enum kiln_code store_rest(struct transport_socket *s, struct bytes rest,
                                 struct kiln_err *err)
{
    buffer_put(&s->output, rest.data, rest.size);
    if (s->output.failed)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "no memory to store a request that kilnd is too busy to read");
    atomic_store(&s->is_sending, true);
    uint64_t one = 1;
    (void)!write(s->wake_fd, &one, sizeof(one));
    return KILN_OK;
}

enum kiln_code socket_send(struct transport *base, struct bytes frame, struct kiln_err *err)
{
    struct transport_socket *s = socket_of(base);
    size_t sent = 0;
    pthread_mutex_lock(&s->mutex);
    enum kiln_code rc = KILN_OK;
    if (s->output.size == 0)
        rc = write_some(s->fd, frame, &sent, err);
    if (!rc && sent < frame.size)
        rc = store_rest(s, bytes_of(frame.data + sent, frame.size - sent), err);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

static enum kiln_code check_files_sent(ssize_t n, struct kiln_err *err)
{
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM))
        return kiln_fail(err, KILN_BUSY, "kilnd is too busy to take files: try again");
    if (n < 0 && errno == EBADF)
        return kiln_fail(err, KILN_INVALID, "a file to send to kilnd is not open");
    if (n < 0 && errno == ETOOMANYREFS)
        return kiln_fail(err, KILN_BUSY,
                         "too many files of this user are in transit already: try again");
    if (n < 0)
        return kiln_fail(err, KILN_UNAVAILABLE, "cannot send files to kilnd: %s", strerror(errno));
    return KILN_OK;
}

enum kiln_code socket_send_files(struct transport *base, struct bytes frame, const int *files,
                                 size_t count, struct kiln_err *err)
{
    struct transport_socket *s = socket_of(base);
    pthread_mutex_lock(&s->mutex);
    ssize_t n = fd_message_send(s->fd, frame, files, count, MSG_DONTWAIT);
    enum kiln_code rc = check_files_sent(n, err);
    size_t sent = rc ? 0 : (size_t)n;
    if (!rc && sent < frame.size)
        rc = store_rest(s, bytes_of(frame.data + sent, frame.size - sent), err);
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

enum kiln_code socket_send_rest(struct transport_socket *s, struct kiln_err *err)
{
    size_t sent = 0;
    pthread_mutex_lock(&s->mutex);
    struct bytes rest = bytes_of(s->output.data + s->output_sent, s->output.size - s->output_sent);
    enum kiln_code rc = rest.size ? write_some(s->fd, rest, &sent, err) : KILN_OK;
    s->output_sent += sent;
    if (!rc && s->output_sent == s->output.size) {
        buffer_done(&s->output);
        buffer_init(&s->output, SIZE_MAX);
        s->output_sent = 0;
        atomic_store(&s->is_sending, false);
    }
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

bool socket_is_sending(struct transport *base) { return atomic_load(&socket_of(base)->is_sending); }
