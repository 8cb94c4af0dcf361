/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Results that are written into a frame: records, and objects that are sent as the frame's
 * descriptors.
 *
 * Role       fills and sends one list at a time, in the engine's scratch buffer
 * Ownership  holds a reference to each object until result_list_done
 * Threading  the engine's thread
 */
#include "engine/service/kernels/fetch.h"

/* Limits of a frame, which is sent when it reaches one of them. So the client gets its first
 * results early, and one call can write the frame into the socket's buffer (208 KiB by default). */
#define RESULT_LIST_OBJECTS 128
#define RESULT_LIST_BYTES (96u << 10)
/* Minimum size of an object that is sent as a segment. A smaller object is copied into its record,
 * because a segment would cost more. */
#define RESULT_LIST_SEGMENT_MIN 1024

struct result_list {
    struct engine *engine;
    const struct caller *caller;
    uint32_t count;
    bool is_frame;
    size_t object_count;
    size_t segment_count, segment_bytes;
    struct object *objects[RESULT_LIST_OBJECTS];
    struct segment segments[RESULT_LIST_OBJECTS];
};

struct result_options {
    uint32_t index;
    uint32_t inline_limit;
    bool no_object;
};

void result_list_begin(struct result_list *list, struct engine *e, const struct caller *caller);
void result_list_begin_frame(struct result_list *list, struct engine *e,
                             const struct caller *caller);
bool result_list_is_full(const struct result_list *list);
void result_list_add(struct result_list *list, const struct result_options *options,
                     const struct fetch_result *result);
struct bytes result_list_records(const struct result_list *list);
void result_list_done(struct result_list *list);
/* Also calls result_list_done. */
void result_list_send(struct result_list *list, struct caller *caller, uint64_t request_id,
                      uint16_t flags);
