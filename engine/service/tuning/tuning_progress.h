/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The progress of a long change of the tuning databases, and the items that it reports.
 *
 * Role       a job on WORK_QUEUE_TUNING adds items; the engine's thread sends them in frames {NAME:
 *            [item...]}, where NAME is for example "bad" or "conflicts". It sends the job's stage
 *            in frames {"progress": {stage, done, total}}
 * Ownership  lists own the items that are added; the request owns the struct
 * Threading  one thread may add while another takes
 *
 * Each list stores its first PROGRESS_ITEMS_MAX items, up to PROGRESS_BYTES_MAX, and counts the
 * rest. Each list has its own limits, so that many items in one list do not displace those of
 * another.
 */
#include "common/base/json.h"
#include "engine/tuning/tuning.h"

#define PROGRESS_ITEMS_MAX 20000u
#define PROGRESS_BYTES_MAX (32u << 20)
#define PROGRESS_VALUE_MAX 1024u
#define PROGRESS_LISTS_MAX 3u

struct tuning_progress;

KILN_MUST_CHECK enum kiln_code tuning_progress_create(struct tuning_progress **ret_progress,
                                                      struct kiln_err *err);
void tuning_progress_destroy(struct tuning_progress *progress);
KILN_DEFINE_AUTO(tuning_progress)
struct tuning_job_events tuning_progress_events(struct tuning_progress *progress);
void tuning_progress_set_stage(struct tuning_progress *progress, const char *stage, uint64_t done,
                               uint64_t total);
/* Takes ownership of |item|. |name| is a string literal; a struct has at most PROGRESS_LISTS_MAX
 * names. */
void tuning_progress_add(struct tuning_progress *progress, const char *name, struct json *item);
/* Counts an item and returns true if the list is full. The caller then need not create the item, of
 * which a change may have millions. */
bool tuning_progress_leave_out(struct tuning_progress *progress, const char *name);
/* Replaces a text longer than PROGRESS_VALUE_MAX by its beginning and its length. */
void tuning_progress_set_value(struct json *item, const char *name, struct bytes text);
/* Returns false if there is nothing new. The caller owns the frame; NULL: out of memory. */
bool tuning_progress_take(struct tuning_progress *progress, struct json **ret_frame);
/* Stops the thread that adds items, because the client has left. */
void tuning_progress_stop(struct tuning_progress *progress);
bool tuning_progress_is_stopped(const struct tuning_progress *progress);
uint64_t tuning_progress_left_out(struct tuning_progress *progress);
uint64_t tuning_progress_left_out_of(struct tuning_progress *progress, const char *name);
