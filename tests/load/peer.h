/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A client made of system calls for any thread or process: what goes wrong is an answer here, not
 * the end of the test.
 *
 * Threading  a peer belongs to one thread
 */
#include "common/messages.h"

#include <stdbool.h>

struct peer {
    int fd;     /* owned; -1: not connected */
    size_t sip; /* bytes taken of the socket at once; 0: all */
};

struct peer_answer {
    enum kiln_code code;
    unsigned number;   /* of the kernel, as it was asked for: the request id */
    uint64_t hash;     /* of the object, where it came */
    bool is_malformed; /* no answer of this protocol */
};

/* Connected to |path|, nothing said. */
bool peer_connect(struct peer *peer, const char *path);
/* Connected and greeted. */
bool peer_open(struct peer *peer, const char *path);
void peer_close(struct peer *peer);
/* False when not all of it goes: kilnd has closed, or, with |at_once|, takes no more now. */
bool peer_send(struct peer *peer, const void *data, size_t size, bool at_once);
bool peer_send_frame(struct peer *peer, unsigned type, uint64_t id, struct bytes body,
                     bool at_once);
struct peer_descriptors {
    unsigned announced; /* the number in the frame's header */
    const int *files;   /* borrowed; the descriptors that are sent */
    unsigned count;
};
bool peer_send_files(struct peer *peer, unsigned type, struct bytes body,
                     const struct peer_descriptors *descriptors);
/* The body of a fetch_source for made kernel |number|. */
void peer_write_fetch(struct buffer *body, unsigned number, uint32_t inline_limit);
/* For any source. */
void peer_write_fetch_of(struct buffer *body, const char *source, uint32_t inline_limit);
/* The next answer to a fetch.  False at the end of the connection, or after a minute of silence. */
bool peer_receive(struct peer *peer, struct peer_answer *ret_answer);

/* What the object of made kernel |number| hashes to. */
uint64_t made_hash(unsigned number);
uint64_t content_hash(struct bytes content);
