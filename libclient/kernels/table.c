/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/table.h"

#include "common/hash_table.h"
#include "common/list.h"

#include <pthread.h>
#include <string.h>

struct entry {
    struct hash_link by_identity;
    struct list_link by_use;
    void *value;                       /* shared, counted */
    const struct table_value_ops *ops; /* static */
    size_t bytes;
    enum table_kind kind;
    size_t identity_size;
    uint8_t identity[]; /* each part: size as size_t, then its bytes */
};

struct table {
    pthread_mutex_t mutex; /* of everything below */
    struct table_options limits;
    struct hash_table entries; /* owned */
    struct list by_use;        /* the same entries, most recently used first */
    size_t bytes;
    uint64_t hits;
    uint64_t epoch; /* how often something was forgotten */
};

/* ---- identities ---- */

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

static const uint64_t odd = 0x9e3779b97f4a7c15ULL;

/* Sixteen bytes by one multiplication of 64 by 64 bits, whose halves are folded. */
static uint64_t mix(uint64_t work_queue, const uint8_t *at)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(word_at(at) ^ work_queue) * (word_at(at + 8) ^ odd);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Four lanes, so that the multiplications overlap: a source of 20 KB takes about a third of a
 * microsecond where a byte at a time takes twenty. */
static uint64_t hash_bytes(struct bytes b, uint64_t seed)
{
    uint64_t l0 = seed ^ b.size, l1 = seed + odd, l2 = seed - odd, l3 = ~seed;
    const uint8_t *at = b.data;
    size_t left = b.size;
    for (; left >= 64; at += 64, left -= 64) {
        l0 = mix(l0, at);
        l1 = mix(l1, at + 16);
        l2 = mix(l2, at + 32);
        l3 = mix(l3, at + 48);
    }
    uint8_t rest[64] = { 0 };
    if (left)
        memcpy(rest, at, left);
    uint64_t h = mix(l0, rest);
    h = mix(h ^ l1, rest + 16);
    h = mix(h ^ l2, rest + 32);
    return mix(h ^ l3, rest + 48);
}

static uint64_t hash_identity(const struct table_identity *id, size_t *ret_size)
{
    uint64_t h = (uint64_t)id->kind + 1;
    size_t size = 0;
    for (size_t i = 0; i < id->count; i++) {
        h = hash_bytes(id->parts[i], h);
        size += sizeof(size_t) + id->parts[i].size;
    }
    *ret_size = size;
    return h;
}

static void write_identity(uint8_t *to, const struct table_identity *id)
{
    for (size_t i = 0; i < id->count; i++) {
        struct bytes part = id->parts[i];
        memcpy(to, &part.size, sizeof(part.size));
        to += sizeof(part.size);
        if (part.size)
            memcpy(to, part.data, part.size);
        to += part.size;
    }
}

/* Sizes in all are the same; so a part that differs in size is met before anything overruns. */
static bool same_identity(const uint8_t *have, const struct table_identity *id)
{
    for (size_t i = 0; i < id->count; i++) {
        struct bytes part = id->parts[i];
        if (memcmp(have, &part.size, sizeof(part.size)) != 0)
            return false;
        have += sizeof(part.size);
        if (part.size && memcmp(have, part.data, part.size) != 0)
            return false;
        have += part.size;
    }
    return true;
}

/* ---- entries ---- */

static struct entry *find(const struct table *t, const struct table_identity *id, uint64_t hash,
                          size_t size)
{
    HASH_EACH (&t->entries, hash, struct entry, by_identity, e)
        if (e->kind == id->kind && e->identity_size == size && same_identity(e->identity, id))
            return e;
    return NULL;
}

static void drop(struct table *t, struct entry *e)
{
    hash_table_remove(&t->entries, &e->by_identity);
    list_remove(&e->by_use);
    t->bytes -= e->bytes;
    e->ops->unref(e->value);
    free(e);
}

static struct entry *make_entry(const struct table_identity *id, size_t size, void *value,
                                const struct table_value_ops *ops, size_t bytes)
{
    struct entry *e = malloc(sizeof(*e) + size);
    if (!e)
        return NULL;
    *e = (struct entry){ .value = value,
                         .ops = ops,
                         .bytes = sizeof(*e) + size + bytes,
                         .kind = id->kind,
                         .identity_size = size };
    write_identity(e->identity, id);
    return e;
}

void *table_get(struct table *table, const struct table_identity *identity)
{
    if (table->limits.limit_entries == 0)
        return NULL;
    size_t size;
    uint64_t hash = hash_identity(identity, &size);
    void *value = NULL;
    pthread_mutex_lock(&table->mutex);
    struct entry *e = find(table, identity, hash, size);
    if (e) {
        list_remove(&e->by_use);
        list_prepend(&table->by_use, &e->by_use);
        e->ops->ref(e->value);
        value = e->value;
        table->hits++;
    }
    pthread_mutex_unlock(&table->mutex);
    return value;
}

static void insert(struct table *table, const uint64_t *epoch,
                   const struct table_identity *identity, void *value,
                   const struct table_value_ops *ops, size_t bytes)
{
    if (table->limits.limit_entries == 0)
        return;
    size_t size;
    uint64_t hash = hash_identity(identity, &size);
    struct entry *fresh = make_entry(identity, size, value, ops, bytes);
    if (!fresh || fresh->bytes > table->limits.limit_bytes) {
        free(fresh);
        return;
    }
    pthread_mutex_lock(&table->mutex);
    if (epoch && *epoch != table->epoch) {
        pthread_mutex_unlock(&table->mutex);
        free(fresh);
        return;
    }
    struct entry *old = find(table, identity, hash, size);
    ops->ref(value); /* before the old one goes: it may be the same */
    if (old)
        drop(table, old);
    hash_table_add(&table->entries, &fresh->by_identity, hash);
    list_prepend(&table->by_use, &fresh->by_use);
    table->bytes += fresh->bytes;
    while (table->entries.count > table->limits.limit_entries ||
           table->bytes > table->limits.limit_bytes)
        drop(table, LIST_LAST(&table->by_use, struct entry, by_use));
    pthread_mutex_unlock(&table->mutex);
}

void table_put(struct table *table, const struct table_identity *identity, void *value,
               const struct table_value_ops *ops, size_t bytes)
{
    insert(table, /* epoch= */ NULL, identity, value, ops, bytes);
}

void table_put_of_epoch(struct table *table, uint64_t epoch, const struct table_identity *identity,
                        void *value, const struct table_value_ops *ops, size_t bytes)
{
    insert(table, &epoch, identity, value, ops, bytes);
}

uint64_t table_epoch(struct table *table)
{
    pthread_mutex_lock(&table->mutex);
    uint64_t epoch = table->epoch;
    pthread_mutex_unlock(&table->mutex);
    return epoch;
}

static bool begins_with(const struct entry *e, struct bytes first)
{
    size_t size;
    if (first.size == 0)
        return true;
    if (e->identity_size < sizeof(size) + first.size)
        return false;
    memcpy(&size, e->identity, sizeof(size));
    return size == first.size && memcmp(e->identity + sizeof(size), first.data, size) == 0;
}

void table_forget(struct table *table, enum table_kind kind, struct bytes first)
{
    pthread_mutex_lock(&table->mutex);
    table->epoch++;
    LIST_EACH (&table->by_use, struct entry, by_use, e)
        if (e->kind == kind && begins_with(e, first))
            drop(table, e);
    pthread_mutex_unlock(&table->mutex);
}

uint64_t table_hits(struct table *table)
{
    pthread_mutex_lock(&table->mutex);
    uint64_t hits = table->hits;
    pthread_mutex_unlock(&table->mutex);
    return hits;
}

size_t table_count(struct table *table)
{
    pthread_mutex_lock(&table->mutex);
    size_t count = table->entries.count;
    pthread_mutex_unlock(&table->mutex);
    return count;
}

enum kiln_code table_create(const struct table_options *options, struct table **ret_table,
                            struct kiln_err *err)
{
    struct table *t = calloc(1, sizeof(*t));
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the table of kernels");
    pthread_mutex_init(&t->mutex, /* attr= */ NULL);
    t->limits = *options;
    list_init(&t->by_use);
    *ret_table = t;
    return KILN_OK;
}

/* Without the mutex: in a forked child its holder may not exist. */
void table_destroy(struct table *table)
{
    if (!table)
        return;
    LIST_EACH (&table->by_use, struct entry, by_use, e)
        drop(table, e);
    hash_table_done(&table->entries);
    free(table);
}
