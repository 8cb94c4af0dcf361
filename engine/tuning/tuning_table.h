/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The records of the user and host tiers in memory, so that a look-up is one probe of a hash table.
 *
 * Role       has the same records as tuning.db; each committed change is also applied here
 * Ownership  owns copies of everything; look-up results are borrowed until the next change
 * Threading  one thread (the engine's)
 */
#include "engine/tuning/family.h"
#include "engine/tuning/tuning_db.h"

struct tuning_table;

KILN_MUST_CHECK enum kiln_code tuning_table_create(struct tuning_table **ret_table,
                                                   struct kiln_err *err);
void tuning_table_destroy(struct tuning_table *table);
KILN_DEFINE_AUTO(tuning_table)

struct tuning_held {
    struct tuning_place place; /* |uid| is TUNING_NOBODY outside the user tier */
    struct bytes value;        /* MIOpen's text of all entries, in order */
    const struct tuning_row *rows;
    size_t row_count;
    struct kinship kin; /* zeroed if kiln cannot parse the key as a problem */
};

/* Replaces the record at |place|; a |count| of 0 removes it. |place| and |rows| may point into the
 * table. After KILN_NO_MEMORY, the old record remains. */
KILN_MUST_CHECK enum kiln_code tuning_table_put(struct tuning_table *table,
                                                const struct tuning_place *place,
                                                const struct tuning_row *rows, size_t count,
                                                struct kiln_err *err);
const struct tuning_held *tuning_table_find(const struct tuning_table *table,
                                            const struct tuning_place *place);
/* Visits some records, in no particular order. If |each| returns false, stops and returns false.
 * |cursor| is 0 at first, and again after the last call. Records may change between two calls: a
 * record that stays until the end is visited once. */
bool tuning_table_visit(const struct tuning_table *table, size_t *cursor,
                        bool (*each)(void *context, const struct tuning_held *held), void *context);
struct tuning_relatives {
    const struct kinship *of;
    enum family family;
};
/* Calls |each| for the records of the family |relatives.family| of the problem |relatives.of|, the
 * nearest first (engine/tuning/kin_order.h), until |each| returns false. */
void tuning_table_near(const struct tuning_table *table, const struct tuning_place *place,
                       struct tuning_relatives relatives,
                       bool (*each)(void *context, const struct tuning_held *held), void *context);
uint64_t tuning_table_count(const struct tuning_table *table, enum tuning_tier tier);
uint64_t tuning_table_count_of(const struct tuning_table *table, uint32_t uid);
uint64_t tuning_table_bytes(const struct tuning_table *table);
