/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors that come with a request (a package to install).
 *
 * Role       takes them off a received message, keeps them until their frame is whole; what it does
 *            not keep goes to the closer, as a close may block
 * Ownership  owns those it keeps; embed it
 * Threading  the loop's thread
 *
 * The kernel ends a read behind the message that brought descriptors, so they are always those of
 * the last frame that began in it.
 */
#include "common/limits.h"
#include "daemon/server/closer.h"

#include <stdint.h>

#include <sys/socket.h>

struct request_files {
    int fds[LIMIT_REQUEST_FILES];
    unsigned count;
    bool is_cut; /* more came than may, or than we could take: they are not what was announced */
    struct closer *closer; /* borrowed */
    uid_t uid;             /* who sends them */
};

/* As many as a message may have: what did not fit the kernel would close, on the loop. */
struct request_files_room {
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(LIMIT_FRAME_DESCRIPTORS * sizeof(int))];
};

/* |uid| has joined the closer, and is not full whenever a message is received. */
void request_files_init(struct request_files *files, struct closer *closer, uid_t uid);
/* Lets |message| receive them; |room| is used until request_files_received. */
void request_files_expect(struct request_files_room *room, struct msghdr *message);
/* After recvmsg.  False when more came than may. */
bool request_files_received(struct request_files *files, const struct msghdr *message);
/* Whether just |announced| came. */
bool request_files_are(const struct request_files *files, unsigned announced);
/* They are somebody else's from now on. */
void request_files_give(struct request_files *files);
/* Closes what is kept. */
void request_files_drop(struct request_files *files);
