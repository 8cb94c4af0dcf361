/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The keys seen so far in a tuning file.
 *
 * Role       detects repeated keys. Files may be hostile: the hash depends on a secret number, so
 *            that nobody can construct keys that all collide
 * Ownership  keys stay in the caller's memory, which may move but not change
 * Threading  one thread at a time for each set
 */
#include "common/bytes.h"
#include "common/err.h"

/* A random secret of two numbers, and a hash keyed with it. */
KILN_MUST_CHECK enum kiln_code tuning_secret_draw(uint64_t ret_secret[2], struct kiln_err *err);
uint32_t tuning_secret_hash(const uint64_t secret[2], struct bytes text);

struct tuning_key_place { /* of a key in the caller's memory */
    uint64_t offset;
    uint32_t size; /* 0: the slot is free; keys are never empty */
    uint32_t hash;
};

struct tuning_keys {
    struct tuning_key_place *places; /* owned; a hash table whose capacity is a power of two */
    size_t capacity, count;
    uint64_t secret[2];
};

/* |expected|: a guess of the number of keys. */
KILN_MUST_CHECK enum kiln_code tuning_keys_init(struct tuning_keys *keys, size_t expected,
                                                struct kiln_err *err);
void tuning_keys_done(struct tuning_keys *keys);
#define TUNING_KEYS_AUTO __attribute__((cleanup(tuning_keys_done)))
/* Adds |key|, which is part of the caller's memory at |base|. |ret_known|: it was added before. */
KILN_MUST_CHECK enum kiln_code tuning_keys_add(struct tuning_keys *keys, const uint8_t *base,
                                               struct bytes key, bool *ret_known,
                                               struct kiln_err *err);
