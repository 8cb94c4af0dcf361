/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A view of all records of a tier or of a file, in the order of their keys: one side of a
 * comparison.
 *
 * Role       reads and sorts some records in each step, then hands them out one by one
 * Ownership  records of a file, of the host and of users are copied; a system database's are in its
 *            index, on which the view has a reference.  Zeroed: not begun
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
    const struct tuning_progress *progress; /* borrowed; tells when to give up */
    uint64_t next;                          /* the next record of the index to read */
    uint64_t end_ns;                        /* end of this step */
    bool has_begun, is_out_of_memory, is_too_long;
    bool has_last; /* |last_key| is the key of the record that was popped last */
    struct bytes last_key;
};

struct tuning_view_record {
    struct bytes key, value;
    bool is_repeated; /* a record with the same key came before it, and is the one that counts */
};

/* Reads some records.  Leaves out damaged records, and lines of a file that are not records.  Set
 * |side->progress| before the first call: KILN_CANCELLED once that is stopped.  |ret_more|: call it
 * again. */
KILN_MUST_CHECK enum kiln_code tuning_view_step(struct tuning_view *side, struct tuning *tuning,
                                                const struct tuning_view_source *from,
                                                bool *ret_more, struct kiln_err *err);
/* The next record.  Call it only after the last step.  False: none is left. */
bool tuning_view_peek(const struct tuning_view *side, struct tuning_view_record *ret_record);
void tuning_view_pop(struct tuning_view *side);
/* Memory that the view holds. */
uint64_t tuning_view_bytes(const struct tuning_view *side);
void tuning_view_done(struct tuning_view *side);
