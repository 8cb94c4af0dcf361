/* SPDX-License-Identifier: MIT */
#include "common/base/fd_message.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void fd_message_put(struct msghdr *message, void *space, const int *fds, size_t count)
{
    size_t size = count * sizeof(*fds);
    memset(space, 0, CMSG_SPACE(size));
    message->msg_control = space;
    message->msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(head), fds, size);
}

size_t fd_message_take(const struct msghdr *message, int *ret_fds, size_t max)
{
    size_t taken = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head;
         head = CMSG_NXTHDR((struct msghdr *)(uintptr_t)message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++, taken++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(fd), sizeof(fd));
            if (taken < max)
                ret_fds[taken] = fd;
            else
                close(fd);
        }
    }
    return taken;
}

ssize_t fd_message_send(int socket, struct bytes content, const int *fds, size_t count, int flags)
{
    FD_MESSAGE_SPACE(space, FD_MESSAGE_MAX);
    struct iovec part = { (void *)(uintptr_t)content.data, content.size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count > 0)
        fd_message_put(&message, space, fds, count);
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
    while (sent < 0 && errno == EINTR);
    return sent;
}

ssize_t fd_message_receive(int socket, struct iovec space, int *ret_fds, size_t max, int *flags)
{
    FD_MESSAGE_SPACE(control, FD_MESSAGE_MAX);
    struct msghdr message = { .msg_iov = &space, .msg_iovlen = 1 };
    if (max > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(max * sizeof(int));
    }
    for (size_t i = 0; i < max; i++)
        ret_fds[i] = -1;
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | *flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return got;
    bool is_cut = fd_message_take(&message, ret_fds, max) > max;
    *flags = message.msg_flags | (is_cut ? MSG_CTRUNC : 0);
    return got;
}
