/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The records that a compaction will write to packs.
 *
 * Role       keeps the verified bytes in memory, because the files from which they were read may
 *            change at any time
 * Ownership  a spool owns copies of the records
 * Threading  plain values
 */
#include "engine/fleet/fleet_record.h"

struct fleet_spooled {
    struct digest key;
    uint64_t time; /* when the kernel was compiled */
    size_t offset; /* in |records| */
    uint32_t size;
};

struct fleet_spool {
    struct buffer records;      /* owned */
    struct fleet_spooled *list; /* owned */
    size_t count, capacity;
    size_t full_at; /* bytes */
};

/* fleet_spool_is_full returns true once the spool has |size| bytes. fleet_spool_add fails if the
 * spool would then have more than twice |size| bytes. */
void fleet_spool_init(struct fleet_spool *spool, size_t size);
void fleet_spool_done(struct fleet_spool *spool);
bool fleet_spool_is_full(const struct fleet_spool *spool);
/* Appends a copy of a record, which the caller has verified. */
KILN_MUST_CHECK enum kiln_code fleet_spool_add(struct fleet_spool *spool, struct bytes content,
                                               const struct fleet_claim *claim,
                                               struct kiln_err *err);
/* Removes all but the first |count| records. */
void fleet_spool_cut(struct fleet_spool *spool, size_t count);
/* Keeps only the newest record of each builder's series, and of these the |max| newest. Returns
 * KILN_OK, or KILN_NO_MEMORY. */
KILN_MUST_CHECK enum kiln_code fleet_spool_keep_newest(struct fleet_spool *spool, size_t max,
                                                       uint64_t now, struct kiln_err *err);
/* Orders the records by the time when their kernels were compiled. */
void fleet_spool_sort(struct fleet_spool *spool);
struct bytes fleet_spool_content(const struct fleet_spool *spool, size_t number);
