/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Records of the host as one block of bytes, which hosts of a fleet exchange
 * (docs/formats/fleet.md#tuning-records).
 *
 * Role       writes and reads the block. The signature around it is not checked here
 * Ownership  a struct tuning_share borrows the block
 * Threading  pure functions
 */
#include "engine/tuning/tuning_table.h"

/* The library of an entry that came from the fleet begins with this. The id of the key that signed
 * the entry follows, and then the library with which it was measured. */
#define TUNING_FLEET_ORIGIN "fleet:"
bool tuning_row_is_of_fleet(const struct tuning_row *row);

/* Begins a block, which has the time 0. The series and the time make the digests of blocks with the
 * same records different. */
void tuning_share_begin(struct buffer *block, const char *series);
/* |block| must be one that tuning_share_begin has begun without running out of memory. */
void tuning_share_set_time(struct buffer *block, uint64_t time);
/* Appends the record's entries that this host has itself, and counts them in |ret_entries|. Appends
 * nothing if there are none. Leaves out which user measured an entry. */
KILN_MUST_CHECK enum kiln_code tuning_share_add(struct buffer *block,
                                                const struct tuning_held *record,
                                                size_t *ret_entries, struct kiln_err *err);

struct tuning_share {
    const char *database_id;
    struct reader left;
    char backend[32];
    struct tuning_place place; /* of the record that was read last; in the host tier */
    struct tuning_row rows[TUNING_ENTRIES_MAX];
    size_t count;
};
/* Returns false if |block| is not a block of records. |database_id| is borrowed, too. */
bool tuning_share_open(struct tuning_share *share, struct bytes block, const char *database_id);
enum tuning_share_step { TUNING_SHARE_RECORD, TUNING_SHARE_END, TUNING_SHARE_DAMAGED };
/* Reads the next record. Entries that claim to be from the fleet count as damage: no host passes on
 * what it got from the fleet. */
enum tuning_share_step tuning_share_next(struct tuning_share *share);
