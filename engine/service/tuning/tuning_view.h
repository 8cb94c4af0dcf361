/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A view of all records of a tier or of a file, sorted by key: one side of a comparison.
 *
 * Ownership  records of a file, of the host and of users are copied; a system database's are
 *            borrowed: it must not be replaced before tuning_view_done
 * Threading  on WORK_QUEUE_TUNING
 */
#include "engine/service/tuning/tuning_progress.h"
#include "engine/service/tuning/tuning_validation.h"

#define TUNING_VIEW_RECORDS_MAX (1u << 21) /* sorted in about a second */

struct tuning_view_record {
    struct bytes key, value;
    size_t at; /* until all copies are made: where the key begins in |texts| */
};

struct tuning_view {
    struct tuning_view_record *records; /* owned */
    size_t count, capacity;
    struct buffer texts; /* owned; the copied texts */
    enum tuning_kind kind;
    const struct tuning_progress *progress; /* borrowed; tells when to give up */
    bool is_out_of_memory, is_too_long;
    struct bytes map; /* owned; of a text file, until all of it was read */
    size_t map_read;  /* bytes */
};

struct tuning_view_tier { /* the records of a view */
    enum tuning_tier tier;
    uint32_t uid;
    enum tuning_kind kind;
    const char *database_id, *backend;
};

/* Damaged records are left out. Set |side->progress| first: both functions end with
 * KILN_CANCELLED when it is stopped. */
KILN_MUST_CHECK enum kiln_code tuning_view_of_tier(struct tuning_view *side,
                                                   const struct tuning *tuning,
                                                   const struct tuning_view_tier *tier,
                                                   struct kiln_err *err);
struct tuning_view_file {
    enum tuning_kind kind;
    const char *path, *name; /* borrowed; |name| is for messages */
};

/* Reads an unpacked, private file; lines that are not records are left out.  One call reads 4 MiB
 * of a text file: call it again while |ret_more| becomes true.  Zero |side| before the first one.
 */
KILN_MUST_CHECK enum kiln_code tuning_view_of_file(struct tuning_view *side,
                                                   const struct tuning_view_file *file,
                                                   bool *ret_more, struct kiln_err *err);
void tuning_view_done(struct tuning_view *side);
