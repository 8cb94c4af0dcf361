/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors in messages of Unix sockets (SCM_RIGHTS, unix(7)).
 *
 * Role       builds and reads control messages
 * Ownership  sending borrows descriptors; the receiver owns those it gets.  Descriptors that it did
 *            not expect are closed
 * Threading  any thread
 */
#include "common/base/bytes.h"

#include <sys/socket.h>

/* Declares |name|, space for the control message of |count| descriptors. */
#define FD_MESSAGE_SPACE(name, count) \
    _Alignas(struct cmsghdr) char name[CMSG_SPACE((count) * sizeof(int))]

/* Attaches |count| descriptors, at least one, to |message|, which borrows |space|. */
void fd_message_put(struct msghdr *message, void *space, const int *fds, size_t count);
/* Copies received descriptors to |ret_fds| and closes those beyond |max|.  Returns how many came,
 * including the closed ones.  Ignores control messages of other kinds. */
size_t fd_message_take(const struct msghdr *message, int *ret_fds, size_t max);

#define FD_MESSAGE_MAX 3u /* descriptors of one call of the following two functions */

/* sendmsg(2) of |content| and |count| descriptors; repeated after EINTR. */
ssize_t fd_message_send(int socket, struct bytes content, const int *fds, size_t count, int flags);
/* recvmsg(2), repeated after EINTR, of at most |max| descriptors, which are close-on-exec.
 * |ret_fds| is -1 for each that did not come.  |flags|: as for recvmsg; then the message's, with
 * MSG_CTRUNC if more came. */
ssize_t fd_message_receive(int socket, struct iovec space, int *ret_fds, size_t max, int *flags);
