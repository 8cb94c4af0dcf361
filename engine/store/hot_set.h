/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The hot set: an in-memory LRU cache of code objects by key. The number of objects is limited too,
 * because each object costs a descriptor.
 *
 * Role       answers most fetches without leaving the daemon's loop
 * Ownership  holds a reference to each object; results are borrowed until the next call
 * Threading  one thread (the daemon's loop)
 */
#include "engine/store/object.h"

struct hot_set;

struct hot_set_options {
    uint64_t limit_bytes; /* sum of object sizes, rounded up to pages */
    unsigned limit_count;
};

KILN_MUST_CHECK enum kiln_code hot_set_create(const struct hot_set_options *options,
                                              struct hot_set **ret_set, struct kiln_err *err);
void hot_set_destroy(struct hot_set *set);
KILN_DEFINE_AUTO(hot_set)

/* Returns NULL if there is no object of this key. Otherwise, the returned object becomes the most
 * recently used one. */
struct object *hot_set_find(struct hot_set *set, const struct digest *key);
/* Like hot_set_find, but does not count as a use of the object. */
struct object *hot_set_peek(struct hot_set *set, const struct digest *key);
/* Adds |object|, and takes a reference to it. Removes all other objects of this key. Does nothing
 * if |object| is larger than the limit of the set, or if memory runs out. */
void hot_set_insert(struct hot_set *set, const struct digest *key, struct object *object);
/* Like hot_set_insert, for a copy that is reserved for a user (held_objects.h). Does not remove
 * objects of this key that are reserved for other users. If a key has several objects, hot_set_find
 * and hot_set_peek return one of them, regardless of the user. */
void hot_set_insert_copy(struct hot_set *set, const struct digest *key, struct object *copy);
/* Returns the object of this key that is reserved for |receiver|, or NULL. The returned object
 * becomes the most recently used one. */
struct object *hot_set_find_copy(struct hot_set *set, const struct digest *key, uint32_t receiver);
bool hot_set_evict(struct hot_set *set, struct object *object);
/* The key is borrowed until the next call. Returns NULL if the object is not in a hot set. */
const struct digest *hot_set_key_of(const struct object *object);
void hot_set_remove(struct hot_set *set, const struct digest *key);
/* Removes all objects from the set. The references to the removed objects are dropped later, by
 * hot_set_drop_some. */
void hot_set_clear(struct hot_set *set);
/* Removes objects that are private to the uid |owner|, and public objects that are cached because
 * this user requested them by name. The references to the removed objects are dropped later, by
 * hot_set_drop_some. */
void hot_set_remove_of(struct hot_set *set, uint32_t owner);
/* Drops references to removed objects, but stops at the time |end_ns|. Closing 8192 objects of 64
 * KiB takes 0.2 s. Returns true if more references remain. */
bool hot_set_drop_some(struct hot_set *set, uint64_t end_ns);
/* Returns a number that grows with each call of hot_set_remove, hot_set_remove_of or
 * hot_set_clear. If the number changed during a look-up, the result of the look-up may be
 * outdated. */
uint64_t hot_set_generation(const struct hot_set *set);
void hot_set_set_limits(struct hot_set *set, const struct hot_set_options *options);
uint64_t hot_set_limit_bytes(const struct hot_set *set);
uint64_t hot_set_bytes(const struct hot_set *set);
unsigned hot_set_count(const struct hot_set *set);
uint64_t hot_set_evictions(const struct hot_set *set);
