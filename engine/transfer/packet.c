/* SPDX-License-Identifier: MIT */
#include "engine/transfer/packet.h"

#include "common/base/fd_message.h"

#include <errno.h>
#include <sys/socket.h>

#define PACKET_MAX (32u << 10)

enum kiln_code packet_send(int socket, const struct packet *packet, struct kiln_err *err)
{
    KILN_AUTO(mem) char *text = json_print(packet->json, false);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a message to a transfer process");
    struct bytes content = bytes_of_text(text);
    if (content.size > PACKET_MAX)
        return kiln_fail(err, KILN_INVALID, "the URL or a name in the request is too long");
    ssize_t put = fd_message_send(socket, content, packet->fds, packet->fd_count, packet->flags);
    if (put < 0 && errno == ETOOMANYREFS)
        return kiln_fail(err, KILN_BUSY, "too many descriptors are under way to other processes");
    return put < 0 ? kiln_fail_errno(err, errno, "cannot write to a transfer process") : KILN_OK;
}

enum kiln_code packet_receive(int socket, int flags, struct json **ret_json, int fds[2],
                              struct kiln_err *err)
{
    KILN_AUTO(mem) char *text = malloc(PACKET_MAX);
    if (!text)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a message of a transfer process");
    struct iovec space = { .iov_base = text, .iov_len = PACKET_MAX };
    ssize_t got = fd_message_receive(socket, space, fds, fds ? 2 : 0, &flags);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return KILN_BUSY;
    if (got <= 0)
        return KILN_UNAVAILABLE;
    if (flags & MSG_TRUNC)
        return kiln_fail(err, KILN_INVALID, "a packet of a transfer process is too long");
    return json_parse(bytes_of(text, (size_t)got), "a transfer process", ret_json, err);
}
