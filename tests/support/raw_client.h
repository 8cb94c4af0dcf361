/* SPDX-License-Identifier: MIT */
#pragma once

/* A client that sends exactly the bytes that a test chooses. */
#include "common/protocol/messages.h"
#include "tests/support/daemon_process.h"

struct raw_frame {
    struct frame_header header;
    uint8_t body[1u << 20];
    int fds[LIMIT_FRAME_DESCRIPTORS]; /* owned by the caller of raw_receive */
    size_t fd_count;
};

/* Connects, but sends nothing. */
int raw_connect(const struct daemon_process *d);
/* Sends hello. Returns false if no welcome arrives. The socket of a killed kilnd can accept
 * connections without an answer, until a child that kilnd was starting has executed its program. */
bool raw_greets(int connection);
int raw_greeted(const struct daemon_process *d);
/* Does daemon_process_open, and connects |*client|. At the end of the test, closes |*client| and
 * stops kilnd, which must exit with status 0. */
void raw_serve(struct daemon_process *d, const char *const *arguments, int *client);
/* The client is user |uid| without groups: a process of this user connects and passes the
 * connection to the test. Only root may call these functions, and the user must have access to
 * the socket. */
int raw_connect_as(const struct daemon_process *d, uid_t uid);
int raw_greeted_as(const struct daemon_process *d, uid_t uid);
/* Fails the test if not all bytes can be sent. */
void raw_send(int fd, const void *data, size_t size);
void raw_send_frame(int fd, unsigned type, uint64_t id, struct bytes body);
struct raw_message {
    unsigned type;
    uint64_t id;
    struct bytes body;
    unsigned announced; /* number of descriptors that the frame header announces */
};
/* The caller still owns the descriptors. */
void raw_send_files(int fd, const struct raw_message *message, const int *files, unsigned count);
void raw_send_source(int fd, uint64_t id, const char *target, const char *options,
                     struct bytes source);
/* Receives one frame. Returns false if the daemon closed the connection. Fails the test after a
 * minute without a frame. */
bool raw_receive(int fd, struct raw_frame *ret_frame);
void raw_close_descriptors(struct raw_frame *frame);
/* If |frame| is an error or a failed result, returns its code and stores its message in |text|.
 * Otherwise returns KILN_OK. */
enum kiln_code raw_refusal(const struct raw_frame *frame, char text[512]);
/* Reads until the daemon closes the connection, which must happen within a minute. */
void raw_expect_closed(int fd);
/* The next frame must be an error with |code| and a message that contains |says|. */
void raw_expect_error(int fd, unsigned code, const char *says);
void raw_expect_pong(int fd);
/* Returns the answer to an administrative request. The caller owns the answer. */
struct json *raw_ask(int fd, enum message_type type, const char *body);
/* Receives the last frame of an answer, and skips progress frames. */
void raw_receive_last(int fd, struct raw_frame *ret_frame);
