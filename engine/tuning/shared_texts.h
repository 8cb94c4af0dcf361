/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Interned texts that many records share: devices, drivers, toolchains, database ids.
 *
 * Ownership  texts are reference-counted; giving back the last reference frees the text
 * Threading  one thread at a time
 */
#include "common/base/hash_table.h"
#include "engine/digest/checksum.h"

struct shared_texts {
    struct hash_table table;
    struct hash_key key;
    uint64_t bytes; /* of memory, without the hash table's buckets */
};

/* |key| must be secret: users choose the texts, and could otherwise make all of them collide. */
void shared_texts_init(struct shared_texts *t, const struct hash_key *key);
void shared_texts_done(struct shared_texts *t);
/* Takes a reference. Returns NULL if memory runs out. NULL as |text| counts as "". */
const char *shared_texts_take(struct shared_texts *t, const char *text);
void shared_texts_give_back(struct shared_texts *t, const char *text); /* accepts NULL */
