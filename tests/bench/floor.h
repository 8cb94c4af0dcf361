/* SPDX-License-Identifier: MIT */
#pragma once

/* A server that only replies. Its time is the floor: no service on a socket can be faster.
 *
 * Messages are as large as kiln's fetch request (FRAME_HEADER_SIZE + key + limit) and kiln's reply
 * with one kernel.
 *
 * Role       receives fixed requests, and replies with a header only, with a header and bytes, or
 *            with a header and descriptors
 * Ownership  server_stop ends the process that floor_start starts */
#include "tests/bench/content.h"
#include "tests/bench/server.h"

#include <sys/socket.h>

#define FLOOR_REQUEST_SIZE 60
#define FLOOR_REPLY_SIZE 133
#define FLOOR_DESCRIPTORS_MAX 253u /* the kernel's limit, SCM_MAX_FD */

enum floor_mode { FLOOR_EMPTY, FLOOR_INLINE, FLOOR_DESCRIPTOR };

struct floor_request {
    uint32_t mode;
    uint32_t first;
    uint32_t count;
};

/* Starts two servers in one process: at |path|, one with a thread for each client; at |epoll_path|,
 * one with a single event loop. */
KILN_MUST_CHECK enum kiln_code floor_start(const struct content *content, const char *path,
                                           const char *epoll_path, struct server *ret_server,
                                           struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code floor_connect(const char *path, int *ret_fd, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code floor_ask(int fd, const struct floor_request *request,
                                         struct kiln_err *err);

struct floor_reply {
    uint8_t *body; /* has |size| bytes, exactly as many as the body of the expected reply */
    size_t size;
    int fds[FLOOR_DESCRIPTORS_MAX]; /* the caller closes them */
    unsigned fd_count;
};
KILN_MUST_CHECK enum kiln_code floor_hear(int fd, struct floor_reply *reply, struct kiln_err *err);
