/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Copies of frames that one thread read from the connection for another thread.
 *
 * Ownership  a stored frame owns its bytes and the descriptors that were not taken
 *            (stored_frame_destroy)
 * Threading  passed between threads under the multiplexer's mutex
 */
#include "libclient/connection/multiplexer.h"

struct stored_frame {
    struct list_link link;
    struct request *request;
    unsigned long generation;
    uint64_t capabilities;
    struct frame_header header;
    size_t descriptor_count;
    /* a descriptor that was taken is replaced by -1 */
    int descriptors[LIMIT_FRAME_DESCRIPTORS];
    uint8_t body[];
};

/* Takes ownership of the descriptors of |frame|.  Returns NULL if out of memory. */
struct stored_frame *stored_frame_create(struct transport_frame *frame);
void stored_frame_destroy(struct stored_frame *frame);
