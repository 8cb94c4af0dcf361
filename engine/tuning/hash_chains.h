/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A hash table of items that hold their own links, so that adding one needs no memory.
 *
 * Role       records by place, records by family, texts: the table of measured records has three of
 *            them
 * Ownership  owns the heads alone; an item may lie in it until chains_remove
 * Threading  one thread at a time
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chained { /* part of an item; |at| NULL: in no table */
    struct chained *next, **at;
    uint64_t hash;
};

struct hash_chains {
    struct chained **heads; /* owned */
    size_t head_count;      /* a power of two */
    size_t count;           /* items */
};

bool chains_init(struct hash_chains *c); /* false: out of memory */
void chains_done(struct hash_chains *c);
/* Cannot fail: without memory to grow the chains get longer. */
void chains_add(struct hash_chains *c, struct chained *item, uint64_t hash);
void chains_remove(struct hash_chains *c, struct chained *item); /* nothing for one in no table */
/* Items of this hash, then the next one of |item|'s hash; NULL: no more. */
struct chained *chains_first(const struct hash_chains *c, uint64_t hash);
struct chained *chains_next(const struct chained *item);
