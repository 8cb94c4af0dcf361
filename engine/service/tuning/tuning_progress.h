/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The progress and the findings of a long change of the tuning databases.
 *
 * Role       WORK_QUEUE_TUNING collects items; the engine's thread takes frames of them to send:
 *            {"progress": {stage, done, total}} and {NAME: [item...]}, as "bad", "conflicts"
 * Ownership  lists own the items that are added; the request owns the struct
 * Threading  one thread may add while another takes
 *
 * Each list keeps its first PROGRESS_ITEMS_MAX items, up to PROGRESS_BYTES_MAX, and counts the
 * rest.  Lists have limits of their own, so hints never take the space of errors.
 */
#include "common/base/json.h"
#include "engine/tuning/tuning.h"

#define PROGRESS_ITEMS_MAX 20000u
#define PROGRESS_BYTES_MAX (32u << 20)
#define PROGRESS_VALUE_MAX 1024u
#define PROGRESS_LISTS_MAX 3u /* of one request, such as "bad", "verbatim", "conflicts" */

struct tuning_progress;

KILN_MUST_CHECK enum kiln_code tuning_progress_create(struct tuning_progress **ret_progress,
                                                      struct kiln_err *err);
void tuning_progress_destroy(struct tuning_progress *progress);
KILN_DEFINE_AUTO(tuning_progress)
/* Events of a job whose context is |progress|. */
struct tuning_job_events tuning_progress_events(struct tuning_progress *progress);
void tuning_progress_set_stage(struct tuning_progress *progress, const char *stage, uint64_t done,
                               uint64_t total);
/* Adds |item|, which it takes over, to the list |name|: a literal, one of at most
 * PROGRESS_LISTS_MAX names. */
void tuning_progress_add(struct tuning_progress *progress, const char *name, struct json *item);
/* True if the list is full: then the next item is counted as not kept, and need not be made. */
bool tuning_progress_leave_out(struct tuning_progress *progress, const char *name);
/* Sets |text| as a member of an item. If it is longer than PROGRESS_VALUE_MAX, only its
 * beginning and its length. */
void tuning_progress_set_value(struct json *item, const char *name, struct bytes text);
/* Gets the next frame, which the caller owns; NULL if out of memory. False: nothing is new. */
bool tuning_progress_take(struct tuning_progress *progress, struct json **ret_frame);
/* Call it when the client has left: the collecting thread checks for it and gives up. */
void tuning_progress_stop(struct tuning_progress *progress);
bool tuning_progress_is_stopped(const struct tuning_progress *progress);
/* The number of items that were not kept, in all lists and in one list. */
uint64_t tuning_progress_left_out(struct tuning_progress *progress);
uint64_t tuning_progress_left_out_of(struct tuning_progress *progress, const char *name);
