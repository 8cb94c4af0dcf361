/* SPDX-License-Identifier: MIT */
#include "engine/miopen/tuning_keys.h"

#include <stdlib.h>

#define CAPACITY_MIN 1024u
/* Maximum number of keys for which memory is allocated in advance. The expected number of keys
 * depends on the size of the file, which may be hostile. */
#define EXPECTED_MAX (1u << 20)

/* The number of slots of the old table that each call moves when it adds a key. Two would be
 * enough: a table of N slots is replaced when it has N / 2 keys, and its successor when it has N
 * keys. So N / 2 keys are added while N slots are moved. */
#define MOVED_MAX 4u

static struct tuning_key_place *find_place(const struct tuning_key_table *table, uint32_t hash,
                                           const uint8_t *base, struct bytes key)
{
    size_t at = hash & (table->capacity - 1);
    for (;; at = (at + 1) & (table->capacity - 1)) {
        struct tuning_key_place *p = &table->places[at];
        if (!p->size || (p->hash == hash && bytes_equal(bytes_of(base + p->offset, p->size), key)))
            return p;
    }
}

static void move_place(struct tuning_key_table *to, const struct tuning_key_place *from)
{
    size_t at = from->hash & (to->capacity - 1);
    while (to->places[at].size)
        at = (at + 1) & (to->capacity - 1);
    to->places[at] = *from;
}

static void drop_table(struct tuning_key_table *table)
{
    free(table->places);
    *table = (struct tuning_key_table){ .capacity = 0 };
}

static void move_some(struct tuning_keys *keys)
{
    const struct tuning_key_table *old = &keys->old;
    for (unsigned i = 0; i < MOVED_MAX && keys->moved < old->capacity; i++) {
        const struct tuning_key_place *from = &old->places[keys->moved++];
        if (from->size)
            move_place(&keys->table, from);
    }
    if (keys->moved == old->capacity)
        drop_table(&keys->old);
}

static enum kiln_code begin_table(struct tuning_keys *keys, size_t capacity, struct kiln_err *err)
{
    struct tuning_key_place *places = calloc(capacity, sizeof(*places));
    if (!places)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys of a tuning file");
    keys->old = keys->table;
    keys->moved = 0;
    keys->table = (struct tuning_key_table){ places, capacity };
    return KILN_OK;
}

enum kiln_code tuning_keys_init(struct tuning_keys *keys, size_t expected, struct kiln_err *err)
{
    size_t capacity = CAPACITY_MIN;
    *keys = (struct tuning_keys){ .count = 0 };
    enum kiln_code rc = hash_key_draw(&keys->hash_key, err);
    if (rc)
        return rc;
    while (capacity < 2 * (expected < EXPECTED_MAX ? expected : EXPECTED_MAX))
        capacity *= 2;
    return begin_table(keys, capacity, err);
}

void tuning_keys_done(struct tuning_keys *keys)
{
    drop_table(&keys->table);
    drop_table(&keys->old);
    *keys = (struct tuning_keys){ .count = 0 };
}

enum kiln_code tuning_keys_add(struct tuning_keys *keys, const uint8_t *base, struct bytes key,
                               bool *ret_known, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (keys->count >= keys->table.capacity / 2)
        rc = begin_table(keys, keys->table.capacity * 2, err);
    if (rc)
        return rc;
    if (keys->old.capacity)
        move_some(keys);
    const uint32_t hash = (uint32_t)keyed_hash(key, &keys->hash_key);
    struct tuning_key_place *place = find_place(&keys->table, hash, base, key);
    *ret_known =
        place->size || (keys->old.capacity && find_place(&keys->old, hash, base, key)->size);
    if (*ret_known)
        return KILN_OK;
    *place = (struct tuning_key_place){ .offset = (uint64_t)(key.data - base),
                                        .size = (uint32_t)key.size,
                                        .hash = hash };
    keys->count++;
    return KILN_OK;
}
