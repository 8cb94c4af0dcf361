/* SPDX-License-Identifier: MIT */
#include "engine/miopen/tuning_ids.h"

_Static_assert((TUNING_IDS_SLOTS & (TUNING_IDS_SLOTS - 1)) == 0, "slots are found by a mask");

enum kiln_code tuning_ids_init(struct tuning_ids *ids, struct kiln_err *err)
{
    *ids = (struct tuning_ids){ .count = 0 };
    return hash_key_draw(&ids->hash_key, err);
}

void tuning_ids_clear(struct tuning_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        ids->slots[ids->taken[i]] = 0;
    ids->count = 0;
}

static size_t slot_of(const struct tuning_ids *ids, struct bytes id)
{
    size_t at = keyed_hash(id, &ids->hash_key) & (TUNING_IDS_SLOTS - 1);
    while (ids->slots[at] && !bytes_equal(ids->ids[ids->slots[at] - 1], id))
        at = (at + 1) & (TUNING_IDS_SLOTS - 1);
    return at;
}

bool tuning_ids_has(const struct tuning_ids *ids, struct bytes id)
{
    return ids->slots[slot_of(ids, id)] != 0;
}

enum tuning_ids_added tuning_ids_add(struct tuning_ids *ids, struct bytes id)
{
    size_t at = slot_of(ids, id);
    if (ids->slots[at])
        return TUNING_ID_IS_KNOWN;
    if (ids->count == TUNING_ENTRIES_MAX)
        return TUNING_IDS_ARE_FULL;
    ids->ids[ids->count] = id;
    ids->taken[ids->count] = (uint16_t)at;
    ids->slots[at] = (uint16_t)++ids->count;
    return TUNING_ID_IS_NEW;
}
