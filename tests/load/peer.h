/* SPDX-License-Identifier: MIT */
#pragma once

/* A client that uses only system calls. The client's functions return failures instead of ending
 * the test. */
#include "common/protocol/messages.h"

#include <stdbool.h>

/* Arguments of a kilnd whose compilers make kernels without compiling. */
#define LOAD_ARGUMENTS "--compiler", KILN_BIN "/../tests/fault_compiler", "--log-level", "error"

struct peer {
    int fd;          /* owned; -1 if not connected */
    size_t read_max; /* maximum number of bytes to read from the socket at once; 0 means no limit */
};

struct peer_answer {
    enum kiln_code code;
    unsigned number;   /* the request id, which is also the kernel's number */
    uint64_t hash;     /* 0 if no object was received */
    bool is_malformed; /* whether the answer violates the protocol */
};

/* Connects without the handshake. */
bool peer_connect(struct peer *peer, const char *path);
bool peer_open(struct peer *peer, const char *path);
void peer_close(struct peer *peer);
/* Returns false if kilnd has closed the connection or reads nothing for a minute. With
 * |at_once|, also returns false if kilnd accepts no more data now. */
bool peer_send(struct peer *peer, const void *data, size_t size, bool at_once);
bool peer_send_frame(struct peer *peer, unsigned type, uint64_t id, struct bytes body,
                     bool at_once);
struct peer_descriptors {
    unsigned announced; /* number of descriptors in the frame's header */
    const int *files;   /* borrowed; the descriptors that are sent */
    unsigned count;
};
bool peer_send_files(struct peer *peer, unsigned type, struct bytes body,
                     const struct peer_descriptors *descriptors);
/* Appends the body of a fetch_source for made kernel |number|. */
void peer_write_fetch(struct buffer *body, unsigned number, uint32_t inline_limit);
void peer_write_fetch_of(struct buffer *body, const char *source, uint32_t inline_limit);
/* Returns false if the connection has ended, or if nothing was received for a minute. */
bool peer_receive(struct peer *peer, struct peer_answer *ret_answer);

uint64_t made_hash(unsigned number);
uint64_t content_hash(struct bytes content);
