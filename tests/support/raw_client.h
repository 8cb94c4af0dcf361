/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A client made of system calls: says exactly the bytes a test wants said.
 */
#include "common/messages.h"
#include "tests/support/daemon_process.h"

struct raw_frame {
    struct frame_header header;
    uint8_t body[1u << 20];
    int fds[LIMIT_FRAME_DESCRIPTORS]; /* owned by the caller of raw_receive */
    size_t fd_count;
};

/* Connected, nothing said. */
int raw_connect(const struct daemon_process *d);
/* Connected and greeted. */
int raw_greeted(const struct daemon_process *d);
/* All of it, or the test fails. */
void raw_send(int fd, const void *data, size_t size);
void raw_send_frame(int fd, unsigned type, uint64_t id, struct bytes body);
/* One frame.  False when the daemon closed the connection; the test fails after ten seconds of
 * silence. */
bool raw_receive(int fd, struct raw_frame *ret_frame);
/* Reads to the end: the daemon must close within |most_ms|. */
void raw_expect_closed(int fd, int most_ms);
/* The next frame must be an error of |code| whose sentence has |says| in it. */
void raw_expect_error(int fd, unsigned code, const char *says);
/* A ping must be answered: the daemon lives and this connection too. */
void raw_expect_pong(int fd);
