/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Hash tables whose links are members of the items, as in list.h.
 *
 * Role       indexes items that are allocated one by one
 * Ownership  owns only its buckets; an item must leave its table before it is freed.  A table with
 *            items must not move in memory
 * Threading  plain values; the owner of the table synchronises access
 *
 * The caller supplies hashes: the first bytes of a digest, or a keyed hash if untrusted parties
 * choose the hashed bytes.  Two items may have the same hash, so the caller compares each match:
 *
 *     struct user { struct hash_link link; uint32_t uid; };
 *
 *     HASH_EACH (&users, hash_of(uid), struct user, link, u)
 *         if (u->uid == uid)
 *             return u;
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_link {
    struct hash_link *next, **at; /* |at| is NULL if the item is in no table */
    uint64_t hash;
};

struct hash_table {             /* a zeroed table is empty */
    struct hash_link **buckets; /* owned */
    struct hash_link *single;   /* the only bucket if there was no memory for |buckets| */
    size_t mask; /* number of buckets (a power of two) minus one; 0 if |single| is used */
    size_t count;
};

void hash_table_done(struct hash_table *table);
/* Never fails.  If memory for more buckets runs out, look-ups become slower. */
void hash_table_add(struct hash_table *table, struct hash_link *link, uint64_t hash);
/* Does nothing if |link| is in no table. */
void hash_table_remove(struct hash_table *table, struct hash_link *link);
size_t hash_table_bytes(const struct hash_table *table);
/* Iterate over all items, in no particular order. */
struct hash_link *hash_table_begin(const struct hash_table *table);
struct hash_link *hash_table_behind(const struct hash_table *table, const struct hash_link *link);

/* Iterates over all items, one bucket in each call.  Between the calls, items may be added and
 * removed.  |cursor| must be 0 for the first call; it is 0 again after the last one.  Returns the
 * first item of the bucket, whose link->next leads to the bucket's other items, or NULL if the
 * bucket is empty.  Each item that stays in the table until the end is visited once, even if the
 * table grows meanwhile. */
struct hash_link *hash_table_visit(const struct hash_table *table, size_t *cursor);

static inline struct hash_link *hash_table_same(struct hash_link *link, uint64_t hash)
{
    while (link && link->hash != hash)
        link = link->next;
    return link;
}

static inline struct hash_link *const *hash_table_buckets(const struct hash_table *table)
{
    return table->mask ? table->buckets : &table->single;
}

static inline struct hash_link *hash_table_first(const struct hash_table *table, uint64_t hash)
{
    return hash_table_same(hash_table_buckets(table)[hash & table->mask], hash);
}

static inline struct hash_link *hash_table_next(const struct hash_link *link)
{
    return hash_table_same(link->next, link->hash);
}

static inline void *hash_table_item(struct hash_link *link, size_t offset)
{
    return link ? (char *)link - offset : NULL;
}

/* The body must not remove |item|, unless the body then ends the loop. */
#define HASH_EACH(table, wanted, type, member, item)                                            \
    for (type *item = hash_table_item(hash_table_first(table, wanted), offsetof(type, member)); \
         item; item = hash_table_item(hash_table_next(&item->member), offsetof(type, member)))

/* The body may remove and free |item|, but no other item. */
#define HASH_ALL(table, type, member, item)                                              \
    for (type *item = hash_table_item(hash_table_begin(table), offsetof(type, member)),  \
              *item##_next;                                                              \
         item && (item##_next = hash_table_item(hash_table_behind(table, &item->member), \
                                                offsetof(type, member)),                 \
                 true);                                                                  \
         item = item##_next)
