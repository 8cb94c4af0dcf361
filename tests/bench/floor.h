/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A server that does nothing but answer: what no service on a socket can beat.
 *
 * Role       fixed requests in; a header, a header and bytes, or a header and descriptors out
 * Ownership  floor_start's process ends with server_stop
 *
 * The sizes are those of kiln's fetch (FRAME_HEADER_SIZE + key + limit) and of a kernels reply
 * with one outcome.
 */
#include "tests/bench/content.h"
#include "tests/bench/server.h"

#include <sys/socket.h>

#define FLOOR_REQUEST_SIZE 60
#define FLOOR_REPLY_SIZE 133
#define FLOOR_DESCRIPTORS_MAX 253u /* SCM_MAX_FD */

enum floor_mode { FLOOR_EMPTY, FLOOR_INLINE, FLOOR_DESCRIPTOR };

struct floor_request {
    uint32_t mode;
    uint32_t first; /* object */
    uint32_t count; /* of objects, for FLOOR_DESCRIPTOR: replies carry up to 253 each */
};

/* Listens on |path| (a thread a client) and on |epoll_path| (one loop for all). */
KILN_MUST_CHECK enum kiln_code floor_start(const struct content *content, const char *path,
                                           const char *epoll_path, struct server *ret_server,
                                           struct kiln_err *err);
/* A connected stream socket; the caller's. */
KILN_MUST_CHECK enum kiln_code floor_connect(const char *path, int *ret_fd, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code floor_ask(int fd, const struct floor_request *request,
                                         struct kiln_err *err);

struct floor_reply {
    uint8_t *body; /* borrowed: room for |room| bytes; a whole reply has exactly these */
    size_t room;
    int fds[FLOOR_DESCRIPTORS_MAX]; /* the caller's */
    unsigned fd_count;
};
KILN_MUST_CHECK enum kiln_code floor_hear(int fd, struct floor_reply *reply, struct kiln_err *err);
