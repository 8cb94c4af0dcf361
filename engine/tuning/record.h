/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A record that is to be written to tuning.db and to tuning_table: a deep copy in one allocation.
 *
 * Ownership  owns all texts that its place and rows point to
 * Threading  a plain value
 */
#include "engine/tuning/tuning_db.h"

struct record {
    struct tuning_place place;
    size_t bytes;
    size_t count; /* 0: this record asks to remove the stored one */
    struct tuning_row *rows;
};

/* Returns NULL if memory runs out. */
struct record *record_create(const struct tuning_place *place, const struct tuning_row *rows,
                             size_t count);
void record_destroy(struct record *record);
KILN_DEFINE_AUTO(record)

struct record_list {
    struct record **records;
    size_t count, max;
    uint64_t bytes;
};
/* Takes ownership of |record|, even on failure. Returns KILN_NO_MEMORY if |record| is NULL, so that
 * the caller need not check record_create. */
KILN_MUST_CHECK enum kiln_code record_list_add(struct record_list *list, struct record *record,
                                               struct kiln_err *err);
void record_list_done(struct record_list *list);
