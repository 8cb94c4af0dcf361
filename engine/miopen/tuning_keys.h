/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The keys seen so far in a tuning file.
 *
 * Role       detects repeated keys.  The hash is keyed, so that nobody can construct keys that all
 *            collide
 * Ownership  keys stay in the caller's memory, which may move, but whose bytes may not change
 * Threading  one thread at a time for each set
 *
 * For a million keys of 56 bytes, this set takes 0.2 µs and 34 bytes for each key; a hash_table of
 * allocated items takes 0.8 µs and 56 bytes.
 */
#include "engine/digest/checksum.h"

struct tuning_key_place {
    uint64_t offset;
    uint32_t size; /* 0: a free slot */
    uint32_t hash;
};

struct tuning_key_table {            /* at most half full */
    struct tuning_key_place *places; /* owned */
    size_t capacity;                 /* a power of two; 0: no table */
};

struct tuning_keys {
    struct tuning_key_table table;
    /* The old table, while a larger one replaces it.  Each call that adds a key moves some keys to
     * the new table, so that no call takes long. */
    struct tuning_key_table old;
    size_t moved;
    size_t count;
    struct hash_key hash_key;
};

KILN_MUST_CHECK enum kiln_code tuning_keys_init(struct tuning_keys *keys, size_t expected,
                                                struct kiln_err *err);
void tuning_keys_done(struct tuning_keys *keys);
static inline uint64_t tuning_keys_bytes(const struct tuning_keys *keys)
{
    return (keys->table.capacity + keys->old.capacity) * sizeof(struct tuning_key_place);
}
/* Adds |key|, which is in the caller's memory that begins at |base|. Sets |ret_known| if the key
 * was added before. */
KILN_MUST_CHECK enum kiln_code tuning_keys_add(struct tuning_keys *keys, const uint8_t *base,
                                               struct bytes key, bool *ret_known,
                                               struct kiln_err *err);
