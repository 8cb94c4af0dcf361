/* SPDX-License-Identifier: MIT */
#include "engine/store/hot_set.h"

#include "common/base/clock.h"
#include "common/base/hash_table.h"
#include "common/base/list.h"

#define PAGE 4096u

struct hot_entry {
    struct hash_link by_key;
    struct list_link by_use;
    struct digest key;
    struct object *object;
};

struct hot_set {
    struct hot_set_options limits;
    struct hash_table entries;
    struct list by_use;  /* the same entries, most recently used first */
    struct list removed; /* entries that were taken out of the set, owned; their objects are dropped
                          * later, by hot_set_drop_some */
    uint64_t bytes;
    uint64_t evictions;
    uint64_t generation;
};

static uint64_t cost_of(const struct object *object)
{
    return (object->size + PAGE - 1) / PAGE * PAGE;
}

static struct hot_entry *find_entry(const struct hot_set *set, const struct digest *key)
{
    HASH_EACH (&set->entries, digest_hash(key), struct hot_entry, by_key, e)
        if (digest_equal(&e->key, key))
            return e;
    return NULL;
}

static struct hot_entry *find_entry_of(const struct hot_set *set, const struct digest *key,
                                       uint32_t receiver)
{
    HASH_EACH (&set->entries, digest_hash(key), struct hot_entry, by_key, e)
        if (digest_equal(&e->key, key) && e->object->has_receiver &&
            e->object->receiver == receiver)
            return e;
    return NULL;
}

/* The caller frees |e|. */
static void unlink_entry(struct hot_set *set, struct hot_entry *e)
{
    hash_table_remove(&set->entries, &e->by_key);
    list_remove(&e->by_use);
    set->bytes -= cost_of(e->object);
    if (e->object->hot_entry == e)
        e->object->hot_entry = NULL;
}

static void free_entry(struct hot_entry *e)
{
    object_unref(e->object);
    free(e);
}

static void drop_entry(struct hot_set *set, struct hot_entry *e)
{
    unlink_entry(set, e);
    free_entry(e);
}

static void remove_entry(struct hot_set *set, struct hot_entry *e)
{
    unlink_entry(set, e);
    list_append(&set->removed, &e->by_use);
}

static void evict_for(struct hot_set *set, uint64_t cost, unsigned count)
{
    while (!list_is_empty(&set->by_use) && (set->bytes + cost > set->limits.limit_bytes ||
                                            set->entries.count + count > set->limits.limit_count)) {
        drop_entry(set, LIST_LAST(&set->by_use, struct hot_entry, by_use));
        set->evictions++;
    }
}

enum kiln_code hot_set_create(const struct hot_set_options *options, struct hot_set **ret_set,
                              struct kiln_err *err)
{
    struct hot_set *set = calloc(1, sizeof(*set));
    if (!set)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot create the hot set: out of memory");
    set->limits = *options;
    list_init(&set->by_use);
    list_init(&set->removed);
    *ret_set = set;
    return KILN_OK;
}

void hot_set_destroy(struct hot_set *set)
{
    if (!set)
        return;
    hot_set_clear(set);
    (void)hot_set_drop_some(set, UINT64_MAX);
    hash_table_done(&set->entries);
    free(set);
}

static struct object *use_entry(struct hot_set *set, struct hot_entry *e)
{
    if (!e)
        return NULL;
    list_remove(&e->by_use);
    list_prepend(&set->by_use, &e->by_use);
    return e->object;
}

struct object *hot_set_find(struct hot_set *set, const struct digest *key)
{
    return use_entry(set, find_entry(set, key));
}

struct object *hot_set_find_copy(struct hot_set *set, const struct digest *key, uint32_t receiver)
{
    return use_entry(set, find_entry_of(set, key, receiver));
}

struct object *hot_set_peek(struct hot_set *set, const struct digest *key)
{
    struct hot_entry *e = find_entry(set, key);
    return e ? e->object : NULL;
}

const struct digest *hot_set_key_of(const struct object *object)
{
    return object->hot_entry ? &object->hot_entry->key : NULL;
}

static void remove_key(struct hot_set *set, const struct digest *key)
{
    for (struct hot_entry *e; (e = find_entry(set, key));)
        drop_entry(set, e);
}

static void drop_replaced(struct hot_set *set, const struct digest *key,
                          const struct object *object, bool is_copy)
{
    if (!is_copy) {
        remove_key(set, key);
        return;
    }
    struct hot_entry *e = find_entry_of(set, key, object->receiver);
    if (e)
        drop_entry(set, e);
}

static void insert(struct hot_set *set, const struct digest *key, struct object *object,
                   bool is_copy)
{
    uint64_t cost = cost_of(object);
    if (cost > set->limits.limit_bytes || set->limits.limit_count == 0)
        return;
    struct hot_entry *e = malloc(sizeof(*e));
    if (!e)
        return;
    *e = (struct hot_entry){ .key = *key, .object = object_ref(object) };
    drop_replaced(set, key, object, is_copy);
    evict_for(set, cost, 1);
    hash_table_add(&set->entries, &e->by_key, digest_hash(key));
    list_prepend(&set->by_use, &e->by_use);
    set->bytes += cost;
    object->hot_entry = e;
}

void hot_set_insert(struct hot_set *set, const struct digest *key, struct object *object)
{
    insert(set, key, object, /* is_copy= */ false);
}

void hot_set_insert_copy(struct hot_set *set, const struct digest *key, struct object *copy)
{
    insert(set, key, copy, /* is_copy= */ true);
}

bool hot_set_evict(struct hot_set *set, struct object *object)
{
    if (!object->hot_entry)
        return false;
    drop_entry(set, object->hot_entry);
    set->evictions++;
    return true;
}

void hot_set_remove(struct hot_set *set, const struct digest *key)
{
    remove_key(set, key);
    set->generation++;
}

void hot_set_clear(struct hot_set *set)
{
    LIST_EACH (&set->by_use, struct hot_entry, by_use, e)
        remove_entry(set, e);
    set->generation++;
}

void hot_set_remove_of(struct hot_set *set, uint32_t owner)
{
    LIST_EACH (&set->by_use, struct hot_entry, by_use, e)
        if ((e->object->is_private || e->object->is_named) && e->object->owner == owner)
            remove_entry(set, e);
    set->generation++;
}

bool hot_set_drop_some(struct hot_set *set, uint64_t end_ns)
{
    for (struct hot_entry *e; (e = LIST_POP(&set->removed, struct hot_entry, by_use));) {
        free_entry(e);
        if (clock_monotonic_ns() >= end_ns)
            break;
    }
    return !list_is_empty(&set->removed);
}

void hot_set_set_limits(struct hot_set *set, const struct hot_set_options *options)
{
    set->limits = *options;
    evict_for(set, 0, 0);
}

uint64_t hot_set_generation(const struct hot_set *set) { return set->generation; }
uint64_t hot_set_limit_bytes(const struct hot_set *set) { return set->limits.limit_bytes; }
uint64_t hot_set_bytes(const struct hot_set *set) { return set->bytes; }
unsigned hot_set_count(const struct hot_set *set) { return (unsigned)set->entries.count; }
uint64_t hot_set_evictions(const struct hot_set *set) { return set->evictions; }
