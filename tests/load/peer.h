/* SPDX-License-Identifier: MIT */
#pragma once

/* A client of kilnd that does not use libkiln. Its functions return errors instead of failing the
 * test, because kilnd may reject a client that misbehaves. */
#include "common/protocol/messages.h"

#include <stdbool.h>

/* Makes kilnd use fault_compiler, which creates kernels without compiling anything. */
#define LOAD_ARGUMENTS "--compiler", KILN_BIN "/../tests/fault_compiler", "--log-level", "error"

struct peer {
    int fd;          /* owned; -1 if not connected */
    size_t read_max; /* how many bytes to read from the socket in one call; 0 means no limit */
};

struct peer_answer {
    enum kiln_code code;
    unsigned number;   /* the request id, which is also the number of the requested kernel */
    uint64_t hash;     /* 0 if no object was received */
    bool is_malformed; /* the answer violates the protocol */
};

/* Connects, but does not send the handshake. peer_open does both. */
bool peer_connect(struct peer *peer, const char *path);
bool peer_open(struct peer *peer, const char *path);
void peer_close(struct peer *peer);
/* Returns false if kilnd has closed the connection, or has not read for a minute. With |at_once|,
 * does not wait but returns false if the socket is full. */
bool peer_send(struct peer *peer, const void *data, size_t size, bool at_once);
bool peer_send_frame(struct peer *peer, unsigned type, uint64_t id, struct bytes body,
                     bool at_once);
struct peer_descriptors {
    unsigned announced; /* number of descriptors that the frame's header states */
    const int *files;   /* borrowed; the descriptors that are sent, whatever the header states */
    unsigned count;
};
bool peer_send_files(struct peer *peer, unsigned type, struct bytes body,
                     const struct peer_descriptors *descriptors);
/* Appends the body of a fetch_source message for made kernel |number|
 * (tests/faults/made_kernel.h). */
void peer_write_fetch(struct buffer *body, unsigned number, uint32_t inline_limit);
void peer_write_fetch_of(struct buffer *body, const char *source, uint32_t inline_limit);
/* Returns false if the connection has ended, or if nothing came for a minute. */
bool peer_receive(struct peer *peer, struct peer_answer *ret_answer);

uint64_t made_hash(unsigned number);
uint64_t content_hash(struct bytes content);
