/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ids seen so far in one record of a tuning file.
 *
 * Role       finds a repeated id in O(1), because a hostile file may repeat one id thousands of
 *            times.  The hash is keyed, so that nobody can construct ids that all collide.  Unlike
 *            hash_table, it allocates nothing and clears fast
 * Ownership  the caller must keep the ids' bytes until tuning_ids_clear
 * Threading  one thread at a time for each set
 */
#include "common/miopen/tuning_text.h"
#include "engine/digest/checksum.h"

#define TUNING_IDS_SLOTS (2u * TUNING_ENTRIES_MAX)

struct tuning_ids {
    struct bytes ids[TUNING_ENTRIES_MAX];
    size_t count;
    uint16_t slots[TUNING_IDS_SLOTS]; /* index in |ids| plus one; 0: free */
    uint16_t taken[TUNING_ENTRIES_MAX];
    struct hash_key hash_key;
};

KILN_MUST_CHECK enum kiln_code tuning_ids_init(struct tuning_ids *ids, struct kiln_err *err);
void tuning_ids_clear(struct tuning_ids *ids);
bool tuning_ids_has(const struct tuning_ids *ids, struct bytes id);

enum tuning_ids_added { TUNING_ID_IS_NEW, TUNING_ID_IS_KNOWN, TUNING_IDS_ARE_FULL };
enum tuning_ids_added tuning_ids_add(struct tuning_ids *ids, struct bytes id);
