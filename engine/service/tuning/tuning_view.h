/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A view of all records of a tier or of a file, in the order of their keys. A comparison
 * (tuning_diff) has two views, its sides.
 *
 * Role       reads and sorts some records in each step, then returns them one by one
 * Ownership  records of a file, of the host and of users are copied. Records of a system database
 *            are in that database's index, and the view holds a reference to the index. A zeroed
 *            view has not begun
 * Threading  one thread at a time: WORK_QUEUE_TUNING, or the engine's thread between two steps
 */
#include "common/base/sorted_runs.h"
#include "engine/service/tuning/tuning_progress.h"
#include "engine/service/tuning/tuning_validation.h"

#define TUNING_VIEW_RECORDS_MAX (1u << 21)

struct tuning_reader;

struct tuning_view_source {
    enum tuning_tier tier; /* TUNING_TIER_NONE: a file */
    uint32_t uid;
    enum tuning_kind kind;
    const char *database_id, *backend;
    const char *path, *name; /* an unpacked file that only kilnd can access, and its name */
};

struct tuning_view {
    struct sorted_runs records;
    struct buffer texts;
    struct tuning_index *index; /* a reference; NULL: not a system database */
    struct tuning_reader *reader;
    enum tuning_kind kind;
    const struct tuning_progress *progress; /* borrowed; if it is stopped, the view ends */
    uint64_t next;
    uint64_t end_ns;
    bool has_begun, is_out_of_memory, is_too_long;
    bool has_last; /* |last_key|, the key of the record that was popped last, is set */
    struct bytes last_key;
};

struct tuning_view_record {
    struct bytes key, value;
    bool is_repeated; /* the record before had the same key; only that record counts */
};

/* Reads and sorts more records, and leaves out damaged ones. Sets |ret_more| if another call is
 * needed. The caller sets |side->progress| before the first call. Once |progress| is stopped, the
 * result is KILN_CANCELLED. */
KILN_MUST_CHECK enum kiln_code tuning_view_step(struct tuning_view *side, struct tuning *tuning,
                                                const struct tuning_view_source *from,
                                                bool *ret_more, struct kiln_err *err);
/* Must follow the last step. Returns false if no record is left. */
bool tuning_view_peek(const struct tuning_view *side, struct tuning_view_record *ret_record);
void tuning_view_pop(struct tuning_view *side);
uint64_t tuning_view_bytes(const struct tuning_view *side);
void tuning_view_done(struct tuning_view *side);
