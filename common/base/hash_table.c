/* SPDX-License-Identifier: MIT */
#include "common/base/hash_table.h"

#include <stdlib.h>

#define BUCKETS_MIN 64u

void hash_table_done(struct hash_table *table)
{
    free(table->buckets);
    *table = (struct hash_table){ 0 };
}

static void link_item(struct hash_link **bucket, struct hash_link *link)
{
    link->next = *bucket;
    link->at = bucket;
    if (link->next)
        link->next->at = &link->next;
    *bucket = link;
}

static void move_bucket(struct hash_link **from, struct hash_link **buckets, size_t mask)
{
    while (*from) {
        struct hash_link *link = *from;
        *from = link->next;
        link_item(&buckets[link->hash & mask], link);
    }
}

static void grow_table(struct hash_table *table)
{
    size_t count = table->mask ? (table->mask + 1) * 2 : BUCKETS_MIN;
    struct hash_link **buckets = calloc(count, sizeof(struct hash_link *));
    if (!buckets)
        return;
    move_bucket(&table->single, buckets, count - 1);
    for (size_t i = 0; table->mask && i <= table->mask; i++)
        move_bucket(&table->buckets[i], buckets, count - 1);
    free(table->buckets);
    table->buckets = buckets;
    table->mask = count - 1;
}

void hash_table_add(struct hash_table *table, struct hash_link *link, uint64_t hash)
{
    if (table->mask == 0 || table->count > table->mask)
        grow_table(table);
    link->hash = hash;
    link_item(table->mask ? &table->buckets[hash & table->mask] : &table->single, link);
    table->count++;
}

void hash_table_remove(struct hash_table *table, struct hash_link *link)
{
    if (!link->at)
        return;
    *link->at = link->next;
    if (link->next)
        link->next->at = link->at;
    link->at = NULL;
    table->count--;
}

size_t hash_table_bytes(const struct hash_table *table)
{
    return table->mask ? (table->mask + 1) * sizeof(*table->buckets) : 0;
}

static struct hash_link *first_from(const struct hash_table *table, size_t bucket)
{
    struct hash_link *const *buckets = hash_table_buckets(table);
    while (bucket <= table->mask && !buckets[bucket])
        bucket++;
    return bucket <= table->mask ? buckets[bucket] : NULL;
}

struct hash_link *hash_table_begin(const struct hash_table *table) { return first_from(table, 0); }

struct hash_link *hash_table_behind(const struct hash_table *table, const struct hash_link *link)
{
    return link->next ? link->next : first_from(table, (link->hash & table->mask) + 1);
}

/* Returns the next bucket in an order that survives growth: the order counts like a binary
 * number, but carries from the highest bit of the mask to the lower ones.  When the number of
 * buckets doubles, bucket i is split into i and i + count, and both take the place that i had in
 * this order.  Example, as bits:
 *
 *     4 buckets   00  10  01  11          8 buckets   000 100  010 110  001 101  011 111 */
static size_t next_bucket(size_t bucket, size_t mask)
{
    size_t bit = (mask + 1) / 2;
    for (; bucket & bit; bit /= 2)
        bucket -= bit;
    return bucket + bit;
}

struct hash_link *hash_table_visit(const struct hash_table *table, size_t *cursor)
{
    struct hash_link *first = hash_table_buckets(table)[*cursor];
    *cursor = next_bucket(*cursor, table->mask);
    return first;
}
