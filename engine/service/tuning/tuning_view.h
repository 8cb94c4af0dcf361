/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * All records of a tier, or of a file, in order of their keys: one side of a comparison.
 *
 * Ownership  records of a file, of the host and of users are copied; a system database's are
 *            borrowed: it may not be replaced until tuning_view_done
 * Threading  on WORK_QUEUE_TUNING
 */
#include "engine/service/tuning/tuning_progress.h"
#include "engine/service/tuning/tuning_validation.h"

#define TUNING_VIEW_RECORDS_MAX (1u << 21) /* sorted in about a second */

struct tuning_view_record {
    struct bytes key, value;
    size_t at; /* of copies: where the key begins in |texts|, until all are read */
};

struct tuning_view {
    struct tuning_view_record *records; /* owned */
    size_t count, most;
    struct buffer texts; /* owned; copies */
    enum tuning_kind kind;
    const struct tuning_progress *progress; /* borrowed: says when to give up */
    bool is_out_of_memory, is_too_long;
};

struct tuning_view_tier { /* which records */
    enum tuning_tier tier;
    uint32_t uid;
    enum tuning_kind kind;
    const char *database_id, *backend;
};

/* Damaged records are left out.  Both give up with KILN_CANCELLED when |side->progress|, set
 * before, is stopped. */
KILN_MUST_CHECK enum kiln_code tuning_view_of_tier(struct tuning_view *side,
                                                   const struct tuning *tuning,
                                                   const struct tuning_view_tier *tier,
                                                   struct kiln_err *err);
/* Reads an unpacked, private file; lines that are not records are left out. */
KILN_MUST_CHECK enum kiln_code tuning_view_of_file(struct tuning_view *side, enum tuning_kind kind,
                                                   const char *path, const char *name,
                                                   struct kiln_err *err);
void tuning_view_done(struct tuning_view *side);
