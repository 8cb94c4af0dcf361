/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/protocol/messages.h"
#include "tests/support/daemon_process.h"

struct raw_frame {
    struct frame_header header;
    uint8_t body[1u << 20];
    int fds[LIMIT_FRAME_DESCRIPTORS]; /* owned by the caller of raw_receive */
    size_t fd_count;
};

int raw_connect(const struct daemon_process *d);
/* Sends hello. Returns false if no welcome arrives. After kilnd was killed, connecting can still
 * succeed without an answer: a child that kilnd had forked keeps the socket open until it calls
 * exec. */
bool raw_greets(int connection);
int raw_greeted(const struct daemon_process *d);
/* Calls daemon_process_open and raw_greeted for |*client|. At the end of the test, closes
 * |*client| and stops kilnd, which must exit with status 0. */
void raw_serve(struct daemon_process *d, const char *const *arguments, int *client);
/* Connect as user |uid| without groups, and pass the connection to the test. Only root may call
 * these functions. Fails the test if the user may not connect to the socket. */
int raw_connect_as(const struct daemon_process *d, uid_t uid);
int raw_greeted_as(const struct daemon_process *d, uid_t uid);
void raw_send(int fd, const void *data, size_t size);
void raw_send_frame(int fd, unsigned type, uint64_t id, struct bytes body);
struct raw_message {
    unsigned type;
    uint64_t id;
    struct bytes body;
    unsigned announced; /* number of descriptors that the frame header announces */
};
/* Sends a frame with |count| descriptors, which may differ from |message->announced|. The caller
 * still owns the descriptors. */
void raw_send_files(int fd, const struct raw_message *message, const int *files, unsigned count);
void raw_send_source(int fd, uint64_t id, const char *target, const char *options,
                     struct bytes source);
/* Receives one frame. Returns false if kilnd closed the connection. Fails the test after a
 * minute without a frame. */
bool raw_receive(int fd, struct raw_frame *ret_frame);
void raw_close_descriptors(struct raw_frame *frame);
/* If |frame| is an error or a failed result, returns its code and copies its message to |text|.
 * Otherwise returns KILN_OK. */
enum kiln_code raw_refusal(const struct raw_frame *frame, char text[512]);
/* Receives and ignores data until kilnd closes the connection, which must happen within a
 * minute. */
void raw_expect_closed(int fd);
void raw_expect_error(int fd, unsigned code, const char *says);
void raw_expect_pong(int fd);
/* Returns kilnd's answer to an administrative request. The caller owns the answer. */
struct json *raw_ask(int fd, enum message_type type, const char *body);
/* Receives the frames of an answer up to the last one, and ignores progress frames. */
void raw_receive_last(int fd, struct raw_frame *ret_frame);
