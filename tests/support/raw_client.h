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
/* The same two as another user of no group: a process of his connects, and the connection is handed
 * over.  Root only, and that user must get to the socket. */
int raw_connect_as(const struct daemon_process *d, uid_t uid);
int raw_greeted_as(const struct daemon_process *d, uid_t uid);
/* All of it, or the test fails. */
void raw_send(int fd, const void *data, size_t size);
void raw_send_frame(int fd, unsigned type, uint64_t id, struct bytes body);
struct raw_message {
    unsigned type;
    uint64_t id;
    struct bytes body;
    unsigned announced; /* descriptors, by the header */
};
/* Sends a frame with |count| descriptors, which the caller keeps. */
void raw_send_files(int fd, const struct raw_message *message, const int *files, unsigned count);
/* A kernel made of |source|. */
void raw_send_source(int fd, uint64_t id, const char *target, const char *options,
                     struct bytes source);
/* One frame.  False when the daemon closed the connection; the test fails after a minute of
 * silence. */
bool raw_receive(int fd, struct raw_frame *ret_frame);
void raw_close_descriptors(struct raw_frame *frame);
/* Why |frame| says no: an error, or an outcome that is none (then and for other frames KILN_OK). */
enum kiln_code raw_refusal(const struct raw_frame *frame, char text[512]);
/* Reads to the end: the daemon must close within a minute of silence. */
void raw_expect_closed(int fd);
/* The next frame must be an error of |code| whose sentence has |says| in it. */
void raw_expect_error(int fd, unsigned code, const char *says);
/* A ping must be answered: the daemon lives and this connection too. */
void raw_expect_pong(int fd);
/* The answer to an administrative request; owned by the caller. */
struct json *raw_ask(int fd, enum message_type type, const char *body);
/* The last frame of what answers a request, progress left out. */
void raw_receive_last(int fd, struct raw_frame *ret_frame);
