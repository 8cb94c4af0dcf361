/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Stored frames: copies of frames that one thread read for another.
 *
 * Ownership  a parcel owns its bytes and the descriptors that were not taken (parcel_destroy)
 * Threading  passed between threads under the multiplexer's mutex
 */
#include "libclient/connection/multiplexer.h"

struct parcel {
    struct parcel *next;
    struct request *request;  /* borrowed */
    unsigned long generation; /* of the connection that carried it */
    uint64_t capabilities;
    struct frame_header header;
    size_t descriptor_count;
    int descriptors[LIMIT_FRAME_DESCRIPTORS]; /* owned */
    uint8_t body[];
};

/* Takes the frame's descriptors.  NULL if out of memory. */
struct parcel *parcel_create(struct transport_frame *frame);
void parcel_destroy(struct parcel *parcel);
