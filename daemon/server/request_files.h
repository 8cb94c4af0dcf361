/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors that come with a request, such as a package to install.
 *
 * Role       takes them from a received message and keeps them until their frame is complete.
 *            Passes descriptors that no request wants to the closer, because close(2) may block
 * Ownership  owns the descriptors that it keeps; the caller embeds the struct
 * Threading  the loop's thread
 *
 * Linux ends a read after a message that brought descriptors, so the descriptors always belong to
 * the last frame that began in that read.
 */
#include "common/base/fd_message.h"
#include "common/protocol/limits.h"
#include "daemon/server/closer.h"

#include <stdint.h>

#include <sys/socket.h>

struct request_files {
    int fds[LIMIT_REQUEST_FILES];
    unsigned count;
    bool is_cut; /* some descriptors were dropped or not received, so the frame has too few */
    struct closer *closer;
    uid_t uid; /* the user who sent them */
};

/* Has space for the descriptors of any frame.  With less space, Linux would close the surplus
 * descriptors during recvmsg, on the loop's thread. */
struct request_files_buffer {
    FD_MESSAGE_SPACE(space, LIMIT_FRAME_DESCRIPTORS);
};

/* |uid| must have joined the closer.  Receive a message only while closer_is_full is false. */
void request_files_init(struct request_files *files, struct closer *closer, uid_t uid);
/* Prepares |message| to receive descriptors into |control|, which must exist until
 * request_files_received. */
void request_files_expect(struct request_files_buffer *control, struct msghdr *message);
/* Call it after recvmsg.  Returns false if more descriptors arrived than allowed. */
bool request_files_received(struct request_files *files, const struct msghdr *message);
bool request_files_are(const struct request_files *files, unsigned announced);
void request_files_clear(struct request_files *files);
void request_files_drop(struct request_files *files);
