/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Progress of a long change of the tuning databases, and what it finds on the way.
 *
 * Role       collects on WORK_QUEUE_TUNING; the engine's thread takes frames of it to send:
 *            {"progress": {stage, done, total}} and {NAME: [item...]}, as "bad", "conflicts"
 * Threading  adding on one thread and taking on another, at the same time
 *
 * Each list keeps its first PROGRESS_ITEMS_MAX items, up to PROGRESS_BYTES_MAX, and counts the
 * rest.  Lists have limits of their own, so hints never take the space of errors.
 */
#include "common/json.h"
#include "engine/tuning/tuning.h"

#define PROGRESS_ITEMS_MAX 20000u
#define PROGRESS_BYTES_MAX (32u << 20)
#define PROGRESS_VALUE_MAX 1024u
#define PROGRESS_LISTS_MAX 3u /* of one request: "bad", "verbatim", "conflicts" */

struct tuning_progress;

KILN_MUST_CHECK enum kiln_code tuning_progress_create(struct tuning_progress **ret_progress,
                                                      struct kiln_err *err);
void tuning_progress_destroy(struct tuning_progress *progress);
KILN_DEFINE_AUTO(tuning_progress)
/* Events of a job whose context is |progress|. */
struct tuning_job_events tuning_progress_events(struct tuning_progress *progress);
void tuning_progress_set_stage(struct tuning_progress *progress, const char *stage, uint64_t done,
                               uint64_t total);
/* |name| is a literal, one of PROGRESS_LISTS_MAX at most; takes |item|. */
void tuning_progress_add(struct tuning_progress *progress, const char *name, struct json *item);
/* |text| as a member of an item: of a longer one than PROGRESS_VALUE_MAX the beginning, and how
 * long it is. */
void tuning_progress_set_value(struct json *item, const char *name, struct bytes text);
/* The next frame, the caller's; NULL: there is nothing new. */
struct json *tuning_progress_take(struct tuning_progress *progress);
/* Call it when the caller has left: the collecting thread notices it now and then, and gives up. */
void tuning_progress_stop(struct tuning_progress *progress);
bool tuning_progress_is_stopped(const struct tuning_progress *progress);
/* Items that were not kept: of all lists, of one. */
uint64_t tuning_progress_left_out(struct tuning_progress *progress);
uint64_t tuning_progress_left_out_of(struct tuning_progress *progress, const char *name);
