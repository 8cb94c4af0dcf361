/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A client that sends exactly the bytes that a test chooses, by system calls.
 */
#include "common/protocol/messages.h"
#include "tests/support/daemon_process.h"

struct raw_frame {
    struct frame_header header;
    uint8_t body[1u << 20];
    int fds[LIMIT_FRAME_DESCRIPTORS]; /* owned by the caller of raw_receive */
    size_t fd_count;
};

/* Connects and sends nothing. */
int raw_connect(const struct daemon_process *d);
/* Connects and says hello. */
int raw_greeted(const struct daemon_process *d);
/* The same two as another user without groups: a process of that user connects and passes the
 * connection. Only for root; that user must have access to the socket. */
int raw_connect_as(const struct daemon_process *d, uid_t uid);
int raw_greeted_as(const struct daemon_process *d, uid_t uid);
/* Sends all bytes; the test fails if it cannot. */
void raw_send(int fd, const void *data, size_t size);
void raw_send_frame(int fd, unsigned type, uint64_t id, struct bytes body);
struct raw_message {
    unsigned type;
    uint64_t id;
    struct bytes body;
    unsigned announced; /* the header's number of descriptors */
};
/* Sends a frame with |count| descriptors, which the caller keeps. */
void raw_send_files(int fd, const struct raw_message *message, const int *files, unsigned count);
/* Requests a kernel from |source|. */
void raw_send_source(int fd, uint64_t id, const char *target, const char *options,
                     struct bytes source);
/* Receives one frame. False if the daemon closed the connection. The test fails after a minute
 * without a frame. */
bool raw_receive(int fd, struct raw_frame *ret_frame);
void raw_close_descriptors(struct raw_frame *frame);
/* The code and text of |frame| if it is an error or a failed result, else KILN_OK. */
enum kiln_code raw_refusal(const struct raw_frame *frame, char text[512]);
/* Reads until the daemon closes the connection, which it must do within a minute. */
void raw_expect_closed(int fd);
/* The next frame must be an error with |code| and a message that contains |says|. */
void raw_expect_error(int fd, unsigned code, const char *says);
/* Sends a ping, which the daemon must answer on this connection. */
void raw_expect_pong(int fd);
/* The answer to an administrative request; owned by the caller. */
struct json *raw_ask(int fd, enum message_type type, const char *body);
/* Receives the last frame of an answer and skips progress frames. */
void raw_receive_last(int fd, struct raw_frame *ret_frame);
