/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Replies of the engine that the client has not received yet. A frame has a copy of the body and
 * duplicates of the objects' descriptors.
 *
 * Ownership  a frame owns its descriptors until embed_frame_release
 * Threading  one thread at a time
 */
#include "common/base/list.h"
#include "common/protocol/transport.h"
#include "engine/service/service.h"

/* The lowest descriptor that the engine may use. Those below belong to the program (standard input,
 * output and error), even while they are closed. */
#define EMBED_FD_MIN 3

struct embed_frame {
    struct list_link link;
    struct frame_header header;
    int descriptors[LIMIT_FRAME_DESCRIPTORS];
    uint8_t body[];
};

/* Returns KILN_NO_MEMORY, or KILN_FULL if no descriptors are left, both without a message. */
KILN_MUST_CHECK enum kiln_code embed_frame_create(const struct reply *reply, uint16_t version,
                                                  struct embed_frame **ret_frame);
void embed_frame_destroy(struct embed_frame *frame);
/* Passes the frame to the client that receives it. Call this function only once for each frame.
 * |ret_frame| borrows the body from |frame| and owns the descriptors. */
void embed_frame_release(struct embed_frame *frame, struct transport_frame *ret_frame);
