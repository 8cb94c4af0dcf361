/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Outcomes on their way into a frame: records, and the objects that are its descriptors.
 *
 * Role       one list is filled and sent at a time; its records are written where they are sent
 *            from, the engine's scratch buffer
 * Ownership  holds a reference to each object until outcome_list_done
 * Threading  the engine's thread
 */
#include "engine/service/kernels/fetch.h"

/* A frame of a batch is sent when it has this many descriptors or bytes: the client can begin, and
 * the frame fits into a socket's buffer (208 KiB by default) in one call. */
#define OUTCOME_LIST_OBJECTS 128
#define OUTCOME_LIST_BYTES (96u << 10)
/* Content of fewer bytes is copied into its record: that costs less than a piece of its own. */
#define OUTCOME_LIST_INLAY_LEAST 1024

struct outcome_list {
    struct engine *engine;
    const struct caller *caller;
    uint32_t count;
    bool is_frame;
    size_t object_count;
    size_t inlay_count, inlaid_bytes;
    struct object *objects[OUTCOME_LIST_OBJECTS]; /* owned references, as the next */
    struct inlay inlays[OUTCOME_LIST_OBJECTS];    /* content that is not among the records */
};

struct outcome_wish { /* how an item wants its object */
    uint32_t index;
    uint32_t inline_limit;
    bool no_object;
};

/* For outcome_list_records. */
void outcome_list_begin(struct outcome_list *list, struct engine *e, const struct caller *caller);
/* For outcome_list_send. */
void outcome_list_begin_frame(struct outcome_list *list, struct engine *e,
                              const struct caller *caller);
bool outcome_list_is_full(const struct outcome_list *list);
void outcome_list_add(struct outcome_list *list, const struct outcome_wish *wish,
                      const struct fetch_result *result);
/* What was added so far, as the field of another message. */
struct bytes outcome_list_records(const struct outcome_list *list);
void outcome_list_done(struct outcome_list *list);
/* As a 'kernels' frame; then the list is done. */
void outcome_list_send(struct outcome_list *list, struct caller *caller, uint64_t request_id,
                       uint16_t flags);
