/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The hot set: code objects in memory by key, least recently used first to go, bounded in bytes
 * and in number (each costs a descriptor).
 *
 * Role       answers most fetches without leaving the loop
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

/* NULL on a miss; a hit becomes the most recently used. */
struct object *hot_set_find(struct hot_set *set, const struct digest *key);
/* Adds a reference of its own; an object larger than the whole set is not kept (not an error).
 * Running out of memory only means that it is not kept. */
void hot_set_insert(struct hot_set *set, const struct digest *key, struct object *object);
void hot_set_remove(struct hot_set *set, const struct digest *key);
void hot_set_clear(struct hot_set *set);
/* Those that only |owner|, a uid, may have, and everyone's under names that he asked for. */
void hot_set_remove_of(struct hot_set *set, uint32_t owner);
/* Grows with each of the three above: what a look-up found before may be out of date. */
uint64_t hot_set_generation(const struct hot_set *set);
/* Other limits from now on; what they have no room for goes. */
void hot_set_set_limits(struct hot_set *set, const struct hot_set_options *options);
uint64_t hot_set_limit_bytes(const struct hot_set *set);
uint64_t hot_set_bytes(const struct hot_set *set);
unsigned hot_set_count(const struct hot_set *set);
uint64_t hot_set_evictions(const struct hot_set *set);
