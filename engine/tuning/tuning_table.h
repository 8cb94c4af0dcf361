/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The records of the user and host tiers in memory, so that a look-up is one probe of a hash table.
 *
 * Role       mirrors tuning.db; filled at opening, changed when a change was committed
 * Ownership  owns copies of everything; what look-ups return is borrowed until the next change
 * Threading  one thread (the engine's)
 */
#include "engine/tuning/family.h"
#include "engine/tuning/tuning_db.h"

struct tuning_table;

KILN_MUST_CHECK enum kiln_code tuning_table_create(struct tuning_table **ret_table,
                                                   struct kiln_err *err);
void tuning_table_destroy(struct tuning_table *table);
KILN_DEFINE_AUTO(tuning_table)

struct tuning_held {           /* one record */
    struct tuning_place place; /* its uid is TUNING_NOBODY outside the user tier */
    struct bytes value;        /* MIOpen's text of all entries, in order */
    const struct tuning_row *rows;
    size_t row_count;
    struct kinship kin; /* zeroed when the key is no problem's */
};

/* Replaces the record of that place; no rows: removes it.  |place| and |rows| may be the table's
 * own. KILN_NO_MEMORY leaves what was there. */
KILN_MUST_CHECK enum kiln_code tuning_table_put(struct tuning_table *table,
                                                const struct tuning_place *place,
                                                const struct tuning_row *rows, size_t count,
                                                struct kiln_err *err);
/* NULL on a miss. */
const struct tuning_held *tuning_table_find(const struct tuning_table *table,
                                            const struct tuning_place *place);
/* Records of |filter|'s kind whose other set fields match (NULL, empty, TUNING_TIER_NONE: any; uid
 * counts with tier user only), in no order, until |each| returns false.  |filter| NULL: all. */
void tuning_table_each(const struct tuning_table *table, const struct tuning_place *filter,
                       bool (*each)(void *context, const struct tuning_held *held), void *context);
/* Records of |place| (its key aside) in the family of this name (struct kinship), in no order,
 * until |each| returns false. */
void tuning_table_family(const struct tuning_table *table, const struct tuning_place *place,
                         struct bytes family,
                         bool (*each)(void *context, const struct tuning_held *held),
                         void *context);
uint64_t tuning_table_count(const struct tuning_table *table, enum tuning_tier tier);
/* Of the user tier, those of one user. */
uint64_t tuning_table_count_of(const struct tuning_table *table, uint32_t uid);
uint64_t tuning_table_bytes(const struct tuning_table *table); /* of memory */
