/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reads the rows of a damaged kernel database, page by page.
 *
 * Role       lists what engine/db/page_scan.h finds that has the form of a row. Skips a row whose
 *            name and arguments differ from the index entry of its id: one flipped bit can turn
 *            them into another kernel's, which no checksum in the row would reveal
 * Ownership  the descriptor is borrowed
 * Threading  one thread at a time
 */
#include "engine/miopen/kern_db.h"

struct kern_salvage;

KILN_MUST_CHECK enum kiln_code kern_salvage_open(int fd, struct kern_salvage **ret_salvage,
                                                 struct kiln_err *err);
/* Searches some pages of the file, or sorts some of what was found, until |end_ns| by the monotonic
 * clock. |ret_more|: call it again. Call the functions below only after the search is complete. */
KILN_MUST_CHECK enum kiln_code kern_salvage_search(struct kern_salvage *salvage, uint64_t end_ns,
                                                   bool *ret_more, struct kiln_err *err);
void kern_salvage_destroy(struct kern_salvage *salvage);
KILN_DEFINE_AUTO(kern_salvage)

/* The number of different row ids. */
uint64_t kern_salvage_count(const struct kern_salvage *salvage);
/* Like kern_db_each. A row counts as lost if its id is known, from the index or from a page, but
 * the row itself cannot be read. */
KILN_MUST_CHECK enum kiln_code kern_salvage_each(struct kern_salvage *salvage,
                                                 const struct kern_listing *listing,
                                                 uint64_t *ret_lost, struct kiln_err *err);
