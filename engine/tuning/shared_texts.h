/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Texts that many records have in common, kept once: devices, drivers, toolchains, database ids.
 *
 * Ownership  a text lives until it was given back as often as it was taken
 * Threading  one thread at a time
 */
#include "common/hash_table.h"
#include "engine/tuning/checksum.h"

struct shared_texts {
    struct hash_table table;
    struct hash_key key;
    uint64_t bytes; /* of memory, its buckets aside */
};

/* |key|: texts are written by anybody. */
void shared_texts_init(struct shared_texts *t, const struct hash_key *key);
void shared_texts_done(struct shared_texts *t); /* frees what was not given back, too */
/* NULL: out of memory.  A |text| of NULL is an empty one. */
const char *shared_texts_take(struct shared_texts *t, const char *text);
void shared_texts_give_back(struct shared_texts *t, const char *text); /* accepts NULL */
