/* SPDX-License-Identifier: MIT */
#include "engine/miopen/tuning_keys.h"

#include <stdlib.h>

#define CAPACITY_MIN 1024u
#define EXPECTED_MAX (1u << 20) /* limits the memory that a hostile file's size can cause */

static enum kiln_code resize_table(struct tuning_keys *keys, size_t capacity, struct kiln_err *err)
{
    struct tuning_key_place *places = calloc(capacity, sizeof(*places));
    if (!places)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys of a tuning file");
    for (size_t i = 0; i < keys->capacity; i++) {
        const struct tuning_key_place *old = &keys->places[i];
        if (!old->size)
            continue;
        size_t at = old->hash & (capacity - 1);
        while (places[at].size)
            at = (at + 1) & (capacity - 1);
        places[at] = *old;
    }
    free(keys->places);
    keys->places = places;
    keys->capacity = capacity;
    return KILN_OK;
}

enum kiln_code tuning_keys_init(struct tuning_keys *keys, size_t expected, struct kiln_err *err)
{
    size_t capacity = CAPACITY_MIN;
    *keys = (struct tuning_keys){ .capacity = 0 };
    enum kiln_code rc = hash_key_draw(&keys->hash_key, err);
    if (rc)
        return rc;
    while (capacity < 2 * (expected < EXPECTED_MAX ? expected : EXPECTED_MAX))
        capacity *= 2;
    return resize_table(keys, capacity, err);
}

void tuning_keys_done(struct tuning_keys *keys)
{
    free(keys->places);
    *keys = (struct tuning_keys){ .capacity = 0 };
}

enum kiln_code tuning_keys_add(struct tuning_keys *keys, const uint8_t *base, struct bytes key,
                               bool *ret_known, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (keys->count >= keys->capacity / 2)
        rc = resize_table(keys, keys->capacity * 2, err);
    if (rc)
        return rc;
    uint32_t hash = (uint32_t)keyed_hash(key, &keys->hash_key);
    size_t at = hash & (keys->capacity - 1);
    for (; keys->places[at].size; at = (at + 1) & (keys->capacity - 1)) {
        const struct tuning_key_place *p = &keys->places[at];
        if (p->hash == hash && bytes_equal(bytes_of(base + p->offset, p->size), key)) {
            *ret_known = true;
            return KILN_OK;
        }
    }
    keys->places[at] = (struct tuning_key_place){ .offset = (uint64_t)(key.data - base),
                                                  .size = (uint32_t)key.size,
                                                  .hash = hash };
    keys->count++;
    *ret_known = false;
    return KILN_OK;
}
