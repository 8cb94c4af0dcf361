/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Parcels: frames that one thread read for another, copied so that they may lie a while.
 *
 * Ownership  a parcel owns its bytes and the descriptors not yet taken (parcel_destroy)
 * Threading  handed over under the exchange's mutex
 */
#include "libclient/connection/multiplexer.h"

struct parcel {
    struct parcel *next;
    struct request *request;  /* borrowed */
    unsigned long generation; /* of the connection it came by */
    uint64_t capabilities;
    struct frame_header header;
    size_t descriptor_count;
    int descriptors[LIMIT_FRAME_DESCRIPTORS]; /* owned */
    uint8_t body[];
};

/* Takes the frame's descriptors.  NULL when out of memory. */
struct parcel *parcel_create(struct transport_frame *frame);
void parcel_destroy(struct parcel *parcel);
