/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ids seen so far in one record of a tuning file.
 *
 * Role       finds a repeated id in O(1), because a hostile file may repeat one id thousands of
 *            times. The hash is keyed, so that nobody can construct ids that all collide. kiln's
 *            general hash_table is not used, because this set allocates nothing and clears fast
 * Ownership  the caller must keep the ids' bytes until tuning_ids_clear
 * Threading  one thread at a time for each set
 */
#include "common/miopen/tuning_text.h"
#include "engine/digest/checksum.h"

#define TUNING_IDS_SLOTS (2u * TUNING_ENTRIES_MAX)

struct tuning_ids {
    struct bytes ids[TUNING_ENTRIES_MAX]; /* borrowed; in the order added */
    size_t count;
    uint16_t slots[TUNING_IDS_SLOTS];   /* index in |ids| plus one; 0 if the slot is free */
    uint16_t taken[TUNING_ENTRIES_MAX]; /* the slot of each id */
    struct hash_key hash_key;
};

KILN_MUST_CHECK enum kiln_code tuning_ids_init(struct tuning_ids *ids, struct kiln_err *err);
void tuning_ids_clear(struct tuning_ids *ids); /* call it before the next record */
bool tuning_ids_has(const struct tuning_ids *ids, struct bytes id);

enum tuning_ids_added { TUNING_ID_IS_NEW, TUNING_ID_IS_KNOWN, TUNING_IDS_ARE_FULL };
/* Adds |id| to the set. Returns TUNING_IDS_ARE_FULL if |id| is new, but the set has
 * TUNING_ENTRIES_MAX ids. */
enum tuning_ids_added tuning_ids_add(struct tuning_ids *ids, struct bytes id);
