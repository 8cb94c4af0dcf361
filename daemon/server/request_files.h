/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors that come with a request (a package to install).
 *
 * Role       takes them from a received message and keeps them until their frame is complete.
 *            Passes the others to the closer, as close(2) may block
 * Ownership  owns the descriptors it keeps; embed it
 * Threading  the loop's thread
 *
 * The kernel ends a read after a message that brought descriptors, so they always belong to the
 * last frame that began in it.
 */
#include "common/base/fd_message.h"
#include "common/protocol/limits.h"
#include "daemon/server/closer.h"

#include <stdint.h>

#include <sys/socket.h>

struct request_files {
    int fds[LIMIT_REQUEST_FILES];
    unsigned count;
    bool is_cut; /* some were dropped or not received, so the count cannot match the frame */
    struct closer *closer; /* borrowed */
    uid_t uid;             /* the sender */
};

/* Space for as many descriptors as a message may have: the kernel would close the others on the
 * loop. */
struct request_files_buffer {
    FD_MESSAGE_SPACE(space, LIMIT_FRAME_DESCRIPTORS);
};

/* |uid| must have joined the closer, and must not be full whenever a message is received. */
void request_files_init(struct request_files *files, struct closer *closer, uid_t uid);
/* Prepares |message| to receive descriptors; |control| is used until request_files_received. */
void request_files_expect(struct request_files_buffer *control, struct msghdr *message);
/* Call after recvmsg.  False if more arrived than allowed. */
bool request_files_received(struct request_files *files, const struct msghdr *message);
/* True if exactly |announced| descriptors arrived. */
bool request_files_are(const struct request_files *files, unsigned announced);
/* Forgets the descriptors, which the caller has taken. */
void request_files_clear(struct request_files *files);
/* Closes the kept descriptors. */
void request_files_drop(struct request_files *files);
