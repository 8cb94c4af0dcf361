/* SPDX-License-Identifier: MIT */
#include "engine/tuning/hash_chains.h"

#include <stdlib.h>

#define HEADS_AT_FIRST 64u

bool chains_init(struct hash_chains *c)
{
    *c = (struct hash_chains){ .heads = calloc(HEADS_AT_FIRST, sizeof(struct chained *)) };
    c->head_count = c->heads ? HEADS_AT_FIRST : 0;
    return c->heads;
}

void chains_done(struct hash_chains *c)
{
    free(c->heads);
    *c = (struct hash_chains){ 0 };
}

static void link_in(struct chained **head, struct chained *item)
{
    item->next = *head;
    item->at = head;
    if (item->next)
        item->next->at = &item->next;
    *head = item;
}

static void grow(struct hash_chains *c)
{
    struct chained **heads = calloc(c->head_count * 2, sizeof(struct chained *));
    if (!heads)
        return;
    for (size_t i = 0; i < c->head_count; i++) {
        while (c->heads[i]) {
            struct chained *item = c->heads[i];
            c->heads[i] = item->next;
            link_in(&heads[item->hash & (c->head_count * 2 - 1)], item);
        }
    }
    free(c->heads);
    c->heads = heads;
    c->head_count *= 2;
}

void chains_add(struct hash_chains *c, struct chained *item, uint64_t hash)
{
    if (c->count >= c->head_count)
        grow(c);
    item->hash = hash;
    link_in(&c->heads[hash & (c->head_count - 1)], item);
    c->count++;
}

void chains_remove(struct hash_chains *c, struct chained *item)
{
    if (!item->at)
        return;
    *item->at = item->next;
    if (item->next)
        item->next->at = item->at;
    item->at = NULL;
    c->count--;
}

static struct chained *same_hash(struct chained *item, uint64_t hash)
{
    while (item && item->hash != hash)
        item = item->next;
    return item;
}

struct chained *chains_first(const struct hash_chains *c, uint64_t hash)
{
    return same_hash(c->heads[hash & (c->head_count - 1)], hash);
}

struct chained *chains_next(const struct chained *item)
{
    return same_hash(item->next, item->hash);
}
