/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Descriptors that come with a request (a package to install).
 *
 * Role       takes them off a received message, keeps them until their frame is whole
 * Ownership  owns those it keeps; embed it
 * Threading  the loop's thread
 *
 * The kernel ends a read behind the message that brought descriptors, so they are always those of
 * the last frame that began in it.
 */
#include "common/limits.h"

#include <stdbool.h>
#include <stdint.h>

#include <sys/socket.h>

struct request_files {
    int fds[LIMIT_REQUEST_FILES];
    unsigned count;
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(LIMIT_REQUEST_FILES * sizeof(int))];
};

/* Lets |message| receive as many as a request may have; the kernel closes what is beyond. */
void request_files_expect(struct request_files *files, struct msghdr *message);
/* After recvmsg.  False when more came than may. */
bool request_files_received(struct request_files *files, const struct msghdr *message);
/* Closes what is kept. */
void request_files_drop(struct request_files *files);
