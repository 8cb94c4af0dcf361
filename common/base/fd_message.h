/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors in messages of Unix sockets (SCM_RIGHTS, unix(7)).
 *
 * Role       builds and reads control messages
 * Ownership  sending borrows descriptors.  The receiver owns the descriptors that it gets; if it
 *            gets more than it expected, the surplus ones are closed
 * Threading  any thread
 */
#include "common/base/bytes.h"

#include <sys/socket.h>

#define FD_MESSAGE_SPACE(name, count) \
    _Alignas(struct cmsghdr) char name[CMSG_SPACE((count) * sizeof(int))]

/* Attaches |count| descriptors, at least one, to |message|, which borrows |space|. */
void fd_message_put(struct msghdr *message, void *space, const int *fds, size_t count);
/* Closes the descriptors beyond |max|.  Returns how many were received, including the closed ones.
 * Ignores control messages of other kinds. */
size_t fd_message_take(const struct msghdr *message, int *ret_fds, size_t max);

#define FD_MESSAGE_MAX 3u

ssize_t fd_message_send(int socket, struct bytes content, const int *fds, size_t count, int flags);
/* Receives with recvmsg(2), which is repeated after EINTR.  |ret_fds| has -1 for each descriptor
 * that was not sent.  |flags| are the flags of recvmsg; on return, the flags of the received
 * message. */
ssize_t fd_message_receive(int socket, struct iovec space, int *ret_fds, size_t max, int *flags);
