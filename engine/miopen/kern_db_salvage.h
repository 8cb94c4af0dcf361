/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rows of a damaged kernel database, page by page.
 *
 * Role       gives what engine/db/page_scan.h finds in the shape of kern_db's rows.  A row whose
 *            name and arguments contradict what the index says of its id is left out: one bit makes
 *            another kernel's arguments of them, and nothing else in the row would tell
 * Ownership  the descriptor is borrowed
 * Threading  one thread at a time
 */
#include "engine/miopen/kern_db.h"

struct kern_salvage;

KILN_MUST_CHECK enum kiln_code kern_salvage_open(int fd, struct kern_salvage **ret_salvage,
                                                 struct kiln_err *err);
void kern_salvage_destroy(struct kern_salvage *salvage);
KILN_DEFINE_AUTO(kern_salvage)

/* Different ids of rows. */
uint64_t kern_salvage_count(const struct kern_salvage *salvage);
/* As kern_db_each.  Lost are the ids that the index or a page still names. */
KILN_MUST_CHECK enum kiln_code kern_salvage_each(struct kern_salvage *salvage,
                                                 const struct kern_listing *listing,
                                                 uint64_t *ret_lost, struct kiln_err *err);
