/* SPDX-License-Identifier: MIT */
#include "engine/store/hot_set.h"

/* Memory comes in pages, so that is what an object costs. */
#define PAGE 4096u
#define BUCKETS_LEAST 64u

struct entry {
    struct entry *next_in_bucket;
    struct entry *newer, *older; /* most recently used first */
    struct digest key;
    struct object *object; /* owned reference */
};

struct hot_set {
    struct hot_set_options limits;
    struct entry **buckets; /* owned; a power of two of them */
    size_t bucket_count;
    struct entry *newest, *oldest;
    uint64_t bytes;
    unsigned count;
    uint64_t evictions;
};

static uint64_t cost_of(const struct object *object)
{
    return (object->size + PAGE - 1) / PAGE * PAGE;
}

static struct entry **find(const struct hot_set *set, const struct digest *key)
{
    struct entry **at = &set->buckets[digest_hash(key) & (set->bucket_count - 1)];
    while (*at && !digest_equal(&(*at)->key, key))
        at = &(*at)->next_in_bucket;
    return at;
}

static void unlink_age(struct hot_set *set, struct entry *e)
{
    *(e->newer ? &e->newer->older : &set->newest) = e->older;
    *(e->older ? &e->older->newer : &set->oldest) = e->newer;
}

static void link_newest(struct hot_set *set, struct entry *e)
{
    e->newer = NULL;
    e->older = set->newest;
    *(set->newest ? &set->newest->newer : &set->oldest) = e;
    set->newest = e;
}

static void drop(struct hot_set *set, struct entry **at)
{
    struct entry *e = *at;
    *at = e->next_in_bucket;
    unlink_age(set, e);
    set->bytes -= cost_of(e->object);
    set->count--;
    object_unref(e->object);
    free(e);
}

static void make_room(struct hot_set *set, uint64_t cost, unsigned count)
{
    while (set->oldest && (set->bytes + cost > set->limits.limit_bytes ||
                           set->count + count > set->limits.limit_count)) {
        drop(set, find(set, &set->oldest->key));
        set->evictions++;
    }
}

/* Without memory for a larger table the chains just get longer. */
static void grow(struct hot_set *set)
{
    if (set->count < set->bucket_count)
        return;
    struct hot_set larger = { .bucket_count = set->bucket_count * 2 };
    larger.buckets = calloc(larger.bucket_count, sizeof(*larger.buckets));
    if (!larger.buckets)
        return;
    for (struct entry *e = set->newest; e; e = e->older) {
        struct entry **at = &larger.buckets[digest_hash(&e->key) & (larger.bucket_count - 1)];
        e->next_in_bucket = *at;
        *at = e;
    }
    free(set->buckets);
    set->buckets = larger.buckets;
    set->bucket_count = larger.bucket_count;
}

enum kiln_code hot_set_create(const struct hot_set_options *options, struct hot_set **ret_set,
                              struct kiln_err *err)
{
    KILN_AUTO(hot_set) struct hot_set *set = calloc(1, sizeof(*set));
    if (set)
        set->buckets = calloc(BUCKETS_LEAST, sizeof(*set->buckets));
    if (!set || !set->buckets)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the hot set: out of memory");
    set->limits = *options;
    set->bucket_count = BUCKETS_LEAST;
    *ret_set = KILN_TAKE(set);
    return KILN_OK;
}

void hot_set_destroy(struct hot_set *set)
{
    if (!set)
        return;
    if (set->buckets)
        hot_set_clear(set);
    free(set->buckets);
    free(set);
}

struct object *hot_set_find(struct hot_set *set, const struct digest *key)
{
    struct entry *e = *find(set, key);
    if (!e)
        return NULL;
    if (e != set->newest) {
        unlink_age(set, e);
        link_newest(set, e);
    }
    return e->object;
}

void hot_set_insert(struct hot_set *set, const struct digest *key, struct object *object)
{
    uint64_t cost = cost_of(object);
    if (cost > set->limits.limit_bytes || set->limits.limit_count == 0)
        return;
    struct entry *e = malloc(sizeof(*e));
    if (!e)
        return;
    *e = (struct entry){ .key = *key, .object = object_ref(object) };
    hot_set_remove(set, key);
    make_room(set, cost, 1);
    grow(set);
    struct entry **at = find(set, key);
    *at = e;
    link_newest(set, e);
    set->bytes += cost;
    set->count++;
}

void hot_set_remove(struct hot_set *set, const struct digest *key)
{
    struct entry **at = find(set, key);
    if (*at)
        drop(set, at);
}

void hot_set_clear(struct hot_set *set)
{
    while (set->newest)
        drop(set, find(set, &set->newest->key));
}

void hot_set_remove_of(struct hot_set *set, uint32_t owner)
{
    struct entry *older;
    for (struct entry *e = set->newest; e; e = older) {
        older = e->older;
        if ((e->object->is_private || e->object->is_named) && e->object->owner == owner)
            drop(set, find(set, &e->key));
    }
}

void hot_set_set_limits(struct hot_set *set, const struct hot_set_options *options)
{
    set->limits = *options;
    make_room(set, 0, 0);
}

uint64_t hot_set_bytes(const struct hot_set *set) { return set->bytes; }
unsigned hot_set_count(const struct hot_set *set) { return set->count; }
uint64_t hot_set_evictions(const struct hot_set *set) { return set->evictions; }
