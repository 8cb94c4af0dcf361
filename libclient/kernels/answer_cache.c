/* SPDX-License-Identifier: MIT */
#include "libclient/kernels/answer_cache.h"

#include "common/base/hash_table.h"
#include "common/base/list.h"

#include <pthread.h>
#include <string.h>

struct entry {
    struct hash_link by_identity;
    struct list_link by_use;
    struct answer answer;
    size_t bytes;
    enum answer_kind kind;
    size_t identity_size;
    uint8_t identity[]; /* for each part of the identity, its size (a size_t) and its bytes */
};

struct answer_cache {
    pthread_mutex_t mutex;
    struct answer_cache_options limits;
    struct hash_table entries;
    struct list by_use;
    size_t bytes;
    uint64_t hits;
    uint64_t epoch; /* how often answer_cache_forget was called */
};

static uint64_t load_64_bits(const uint8_t *at)
{
    uint64_t bits;
    memcpy(&bits, at, sizeof(bits));
    return bits;
}

/* 2^64 divided by the golden ratio: an odd number whose bits have no pattern. */
static const uint64_t odd = 0x9e3779b97f4a7c15ULL;

/* wyhash's step: multiplies 64 by 64 bits, then combines the two halves of the product by XOR. */
static uint64_t mix_16_bytes(uint64_t hash, const uint8_t *at)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(load_64_bits(at) ^ hash) * (load_64_bits(at + 8) ^ odd);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Hashes 64 bytes in each round, in four independent streams, so that the processor overlaps the
 * multiplications.  A source of 20 KB takes about 0.3 µs; hashing one byte at a time would take 20
 * µs.  The last round is padded with zeros.  The size is part of the seed, so that texts of
 * different lengths have different hashes in spite of the padding. */
static uint64_t hash_bytes(struct bytes b, uint64_t seed)
{
    uint64_t l0 = seed ^ b.size, l1 = seed + odd, l2 = seed - odd, l3 = ~seed;
    const uint8_t *at = b.data;
    size_t left = b.size;
    for (; left >= 64; at += 64, left -= 64) {
        l0 = mix_16_bytes(l0, at);
        l1 = mix_16_bytes(l1, at + 16);
        l2 = mix_16_bytes(l2, at + 32);
        l3 = mix_16_bytes(l3, at + 48);
    }
    uint8_t rest[64] = { 0 };
    if (left)
        memcpy(rest, at, left);
    uint64_t h = mix_16_bytes(l0, rest);
    h = mix_16_bytes(h ^ l1, rest + 16);
    h = mix_16_bytes(h ^ l2, rest + 32);
    return mix_16_bytes(h ^ l3, rest + 48);
}

static uint64_t hash_identity(const struct answer_identity *id, size_t *ret_size)
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

static void write_identity(uint8_t *to, const struct answer_identity *id)
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

/* Returns whether |have|, a stored identity, equals |id|.  Both must have the same total size.  The
 * comparison ends at the first part with a different size, so it never reads beyond |have|. */
static bool is_same_identity(const uint8_t *have, const struct answer_identity *id)
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

static struct entry *find_entry(const struct answer_cache *c, const struct answer_identity *id,
                                uint64_t hash, size_t size)
{
    HASH_EACH (&c->entries, hash, struct entry, by_identity, e)
        if (e->kind == id->kind && e->identity_size == size && is_same_identity(e->identity, id))
            return e;
    return NULL;
}

static void drop_entry(struct answer_cache *c, struct entry *e)
{
    hash_table_remove(&c->entries, &e->by_identity);
    list_remove(&e->by_use);
    c->bytes -= e->bytes;
    e->answer.ops->unref(e->answer.value);
    free(e);
}

static struct entry *make_entry(const struct answer_identity *id, size_t size,
                                const struct answer *answer)
{
    struct entry *e = malloc(sizeof(*e) + size);
    if (!e)
        return NULL;
    *e = (struct entry){ .answer = *answer,
                         .bytes = sizeof(*e) + size + answer->bytes,
                         .kind = id->kind,
                         .identity_size = size };
    write_identity(e->identity, id);
    return e;
}

void *answer_cache_get(struct answer_cache *cache, const struct answer_identity *identity)
{
    if (cache->limits.limit_entries == 0)
        return NULL;
    size_t size;
    uint64_t hash = hash_identity(identity, &size);
    void *value = NULL;
    pthread_mutex_lock(&cache->mutex);
    struct entry *e = find_entry(cache, identity, hash, size);
    if (e) {
        list_remove(&e->by_use);
        list_prepend(&cache->by_use, &e->by_use);
        value = e->answer.value;
        e->answer.ops->ref(value);
        cache->hits++;
    }
    pthread_mutex_unlock(&cache->mutex);
    return value;
}

/* Adds the answer.  If |epoch| is not NULL, adds it only if answer_cache_forget was not called
 * since |epoch| was read. */
static void insert_answer(struct answer_cache *cache, const uint64_t *epoch,
                          const struct answer_identity *identity, const struct answer *answer)
{
    if (cache->limits.limit_entries == 0)
        return;
    size_t size;
    uint64_t hash = hash_identity(identity, &size);
    struct entry *fresh = make_entry(identity, size, answer);
    if (!fresh || fresh->bytes > cache->limits.limit_bytes) {
        free(fresh);
        return;
    }
    pthread_mutex_lock(&cache->mutex);
    if (epoch && *epoch != cache->epoch) {
        pthread_mutex_unlock(&cache->mutex);
        free(fresh);
        return;
    }
    struct entry *old = find_entry(cache, identity, hash, size);
    /* The reference must be taken first, because dropping the old entry may free this value. */
    answer->ops->ref(answer->value);
    if (old)
        drop_entry(cache, old);
    hash_table_add(&cache->entries, &fresh->by_identity, hash);
    list_prepend(&cache->by_use, &fresh->by_use);
    cache->bytes += fresh->bytes;
    while (cache->entries.count > cache->limits.limit_entries ||
           cache->bytes > cache->limits.limit_bytes)
        drop_entry(cache, LIST_LAST(&cache->by_use, struct entry, by_use));
    pthread_mutex_unlock(&cache->mutex);
}

void answer_cache_put(struct answer_cache *cache, const struct answer_identity *identity,
                      const struct answer *answer)
{
    insert_answer(cache, NULL, identity, answer);
}

void answer_cache_put_of_epoch(struct answer_cache *cache, uint64_t epoch,
                               const struct answer_identity *identity, const struct answer *answer)
{
    insert_answer(cache, &epoch, identity, answer);
}

uint64_t answer_cache_epoch(struct answer_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    uint64_t epoch = cache->epoch;
    pthread_mutex_unlock(&cache->mutex);
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

void answer_cache_forget(struct answer_cache *cache, enum answer_kind kind, struct bytes first)
{
    pthread_mutex_lock(&cache->mutex);
    cache->epoch++;
    LIST_EACH (&cache->by_use, struct entry, by_use, e)
        if (e->kind == kind && begins_with(e, first))
            drop_entry(cache, e);
    pthread_mutex_unlock(&cache->mutex);
}

uint64_t answer_cache_hits(struct answer_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    uint64_t hits = cache->hits;
    pthread_mutex_unlock(&cache->mutex);
    return hits;
}

size_t answer_cache_count(struct answer_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    size_t count = cache->entries.count;
    pthread_mutex_unlock(&cache->mutex);
    return count;
}

enum kiln_code answer_cache_create(const struct answer_cache_options *options,
                                   struct answer_cache **ret_cache, struct kiln_err *err)
{
    struct answer_cache *c = calloc(1, sizeof(*c));
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the in-process cache of a client");
    pthread_mutex_init(&c->mutex, NULL);
    c->limits = *options;
    list_init(&c->by_use);
    *ret_cache = c;
    return KILN_OK;
}

/* Does not lock the mutex: in a forked child, the mutex may be locked for ever by a thread that
 * exists only in the parent. */
void answer_cache_destroy(struct answer_cache *cache)
{
    if (!cache)
        return;
    LIST_EACH (&cache->by_use, struct entry, by_use, e)
        drop_entry(cache, e);
    hash_table_done(&cache->entries);
    free(cache);
}
