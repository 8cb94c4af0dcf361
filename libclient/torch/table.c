/* SPDX-License-Identifier: MIT */
#include "libclient/torch/table.h"

#include <stdlib.h>
#include <string.h>

static bool is_equal(const struct key *one, const struct key *other)
{
    return one->hash == other->hash && one->count == other->count &&
           memcmp(one->words, other->words, one->count * sizeof(one->words[0])) == 0;
}

/* Returns the position of |key|, or the free one where it belongs.  One is free, because at most
 * half of the slots are used. */
static size_t position_of(const struct table *table, const struct key *key)
{
    size_t at = key->hash % SLOTS;
    for (;; at = (at + 1) % SLOTS) {
        const struct entry *entry = atomic_load_explicit(&table->slots[at], memory_order_acquire);
        if (!entry || is_equal(&entry->key, key))
            return at;
    }
}

const struct entry *table_find(const struct table *table, const struct key *key)
{
    return atomic_load_explicit(&table->slots[position_of(table, key)], memory_order_acquire);
}

static struct entry *make_entry(const struct key *key, struct kiln_torch_choice *const choices[2])
{
    size_t size = offsetof(struct entry, key.words) + key->count * sizeof(key->words[0]);
    struct entry *entry = malloc(size);
    if (entry) {
        memcpy(entry->choices, choices, sizeof(entry->choices));
        memcpy(&entry->key, key, size - offsetof(struct entry, key));
    }
    return entry;
}

/* Adds an entry, while the lock is held.  An entry that another thread added meanwhile stays. */
static bool add_entry(struct table *table, const struct key *key,
                      struct kiln_torch_choice *const choices[2])
{
    size_t at = position_of(table, key);
    if (atomic_load_explicit(&table->slots[at], memory_order_relaxed))
        return true;
    struct entry *entry = table->count < ENTRIES_MAX ? make_entry(key, choices) : NULL;
    if (!entry)
        return false;
    table->count++;
    atomic_store_explicit(&table->slots[at], entry, memory_order_release);
    return true;
}

bool table_add(struct table *table, const struct key *key,
               struct kiln_torch_choice *const choices[2])
{
    pthread_mutex_lock(&table->lock);
    bool is_added = add_entry(table, key, choices);
    pthread_mutex_unlock(&table->lock);
    return is_added;
}
