/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Outcomes on their way into a frame: records, and the objects that are its descriptors.
 *
 * Role       one list is filled and sent at a time; it uses the engine's scratch buffers
 * Ownership  borrows the objects until sent
 * Threading  the engine's thread
 */
#include "engine/service/fetch.h"

/* A frame of a batch is sent when it has this many descriptors or bytes: the client can begin. */
#define OUTCOME_LIST_OBJECTS 128
#define OUTCOME_LIST_BYTES (256u << 10)

struct outcome_list {
    struct engine *engine;
    const struct caller *caller;
    uint32_t count;
    size_t object_count;
    struct object *objects[OUTCOME_LIST_OBJECTS]; /* borrowed */
};

struct outcome_wish { /* how an item wants its object */
    uint32_t index;
    uint32_t inline_limit;
    bool no_object;
};

void outcome_list_begin(struct outcome_list *list, struct engine *e, const struct caller *caller);
bool outcome_list_is_full(const struct outcome_list *list);
void outcome_list_add(struct outcome_list *list, const struct outcome_wish *wish,
                      const struct fetch_result *result);
/* As a 'kernels' frame. */
void outcome_list_send(struct outcome_list *list, struct caller *caller, uint64_t request_id,
                       uint16_t flags);
