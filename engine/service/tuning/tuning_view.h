/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A view of all records of a tier or of a file, in the order of their keys. A comparison
 * (tuning_diff) has two views, its sides.
 *
 * Role       reads and sorts some records in each step, then returns them one by one
 * Ownership  records of a file, of the host and of users are copied; those of a system database are
 *            in its index, on which the view has a reference.  A zeroed view has not begun
 * Threading  one thread at a time: WORK_QUEUE_TUNING, or the engine's thread between two steps
 */
#include "common/base/sorted_runs.h"
#include "engine/service/tuning/tuning_progress.h"
#include "engine/service/tuning/tuning_validation.h"

#define TUNING_VIEW_RECORDS_MAX (1u << 21)

struct tuning_reader;

struct tuning_view_source { /* the records of a view */
    enum tuning_tier tier;  /* TUNING_TIER_NONE: a file */
    uint32_t uid;
    enum tuning_kind kind;
    const char *database_id, *backend;
    const char *path, *name; /* an unpacked file that only kilnd can access; its name */
};

struct tuning_view {
    struct sorted_runs records;
    struct buffer texts;          /* owned; the copied texts */
    struct tuning_index *index;   /* a reference; NULL: not a system database */
    struct tuning_reader *reader; /* owned; of a file that is being read */
    enum tuning_kind kind;
    const struct tuning_progress *progress; /* borrowed; says whether to stop */
    uint64_t next;                          /* the next record of the index to read */
    uint64_t end_ns;                        /* end of this step */
    bool has_begun, is_out_of_memory, is_too_long;
    bool has_last; /* |last_key| is set: the key of the record that was popped last */
    struct bytes last_key;
};

struct tuning_view_record {
    struct bytes key, value;
    bool is_repeated; /* the record before had the same key; only that record counts */
};

/* Reads some records.  Leaves out damaged records, and lines of a file that are not records.  Set
 * |side->progress| before the first call; the result is KILN_CANCELLED once |side->progress| is
 * stopped.  Sets |ret_more| if it must be called again. */
KILN_MUST_CHECK enum kiln_code tuning_view_step(struct tuning_view *side, struct tuning *tuning,
                                                const struct tuning_view_source *from,
                                                bool *ret_more, struct kiln_err *err);
/* Returns the next record.  Call it only after the last step.  Returns false if there is none. */
bool tuning_view_peek(const struct tuning_view *side, struct tuning_view_record *ret_record);
void tuning_view_pop(struct tuning_view *side);
/* Returns the memory that the view holds. */
uint64_t tuning_view_bytes(const struct tuning_view *side);
void tuning_view_done(struct tuning_view *side);
