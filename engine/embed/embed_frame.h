/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Answers of the engine that wait to be received: a copy of the body, and duplicated descriptors of
 * the objects.
 *
 * Ownership  a frame owns its descriptors until it is handed out
 * Threading  one thread at a time
 */
#include "common/transport.h"
#include "engine/service/service.h"

#define EMBED_FD_MIN 3 /* 0, 1 and 2 belong to the program, even if it has closed them */

struct embed_frame {
    struct embed_frame *next;
    struct frame_header header;
    int descriptors[LIMIT_FRAME_DESCRIPTORS]; /* owned until handed out */
    uint8_t body[];
};

struct embed_frame_list {
    struct embed_frame *first, **last;
};

/* Fails without a message: KILN_NO_MEMORY, or KILN_FULL if no descriptors are left. */
KILN_MUST_CHECK enum kiln_code embed_frame_create(const struct reply *reply, uint16_t version,
                                                  struct embed_frame **ret_frame);
/* Accepts NULL. */
void embed_frame_destroy(struct embed_frame *frame);
/* Hands the frame out, once. |ret_frame| borrows from |frame| and owns the descriptors. */
void embed_frame_hand_out(struct embed_frame *frame, struct transport_frame *ret_frame);

void embed_frame_list_init(struct embed_frame_list *list);
void embed_frame_append(struct embed_frame_list *list, struct embed_frame *frame);
/* Removes and returns the first frame, which the caller then owns; NULL: the list is empty. */
struct embed_frame *embed_frame_take(struct embed_frame_list *list);
