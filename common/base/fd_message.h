/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors in messages of Unix sockets (SCM_RIGHTS, unix(7)).
 *
 * Role       builds and reads control messages
 * Ownership  sending borrows descriptors.  The receiver owns the descriptors that it gets; if it
 *            gets more than it expected, the others are closed
 * Threading  any thread
 */
#include "common/base/bytes.h"

#include <sys/socket.h>

/* Declares |name|, which has space for the control message of |count| descriptors. */
#define FD_MESSAGE_SPACE(name, count) \
    _Alignas(struct cmsghdr) char name[CMSG_SPACE((count) * sizeof(int))]

/* Attaches |count| descriptors, at least one, to |message|, which borrows |space|. */
void fd_message_put(struct msghdr *message, void *space, const int *fds, size_t count);
/* Copies received descriptors to |ret_fds| and closes those beyond |max|.  Returns how many were
 * received, including the closed ones.  Ignores control messages of other kinds. */
size_t fd_message_take(const struct msghdr *message, int *ret_fds, size_t max);

/* Maximum number of descriptors that the next two functions pass in one call. */
#define FD_MESSAGE_MAX 3u

/* Sends |content| and |count| descriptors with sendmsg(2), which is repeated after EINTR. */
ssize_t fd_message_send(int socket, struct bytes content, const int *fds, size_t count, int flags);
/* Receives data and at most |max| descriptors with recvmsg(2), which is repeated after EINTR.  The
 * descriptors are close-on-exec.  |ret_fds| has -1 for each one that was not sent.  |flags| are the
 * flags of recvmsg; on return they are those of the message, with MSG_CTRUNC if more than |max|
 * were sent. */
ssize_t fd_message_receive(int socket, struct iovec space, int *ret_fds, size_t max, int *flags);
