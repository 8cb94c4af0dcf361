/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The look-up of a kernel: first the hot set, then the store, then the packages, each under all
 * keys and names that the kernel has.
 *
 * Role       serves a fetch, and why_miss, which must report what a fetch would find
 * Ownership  borrows its inputs; the object that kernel_lookup finds belongs to the caller
 * Threading  kernel_lookup_hot: the engine's thread. kernel_lookup: a work queue; any number of
 *            threads may use the store and the packages
 */
#include "common/protocol/messages.h"
#include "engine/package/package_set.h"
#include "engine/service/kernels/name_key.h"
#include "engine/store/hot_set.h"
#include "engine/store/kernel_name.h"
#include "engine/store/kernel_store.h"

struct hot_lookup {
    const struct digest *key;
    const struct kernel_name *name;
    uid_t uid;
};

/* Returns whether the user may get |object|: false for another user's private import, even if the
 * user knows the key. */
static inline bool kernel_is_visible(const struct object *object, uid_t uid)
{
    return !object || !object->is_private || object->owner == (uint32_t)uid;
}

typedef struct object *hot_set_finder(struct hot_set *set, const struct digest *key);
/* Looks a kernel up in the hot set, by key and then by name. |find| is hot_set_find, or
 * hot_set_peek if the look-up must not count as a use of the kernel. *ret_key becomes the key under
 * which the hot set has the object. */
static inline struct object *kernel_lookup_hot(struct hot_set *hot, hot_set_finder *find,
                                               const struct hot_lookup *l, struct digest *ret_key)
{
    struct object *object = find(hot, l->key);
    *ret_key = *l->key;
    if (object && kernel_is_visible(object, l->uid))
        return object;
    if (!l->name || l->name->target.size == 0)
        return NULL;
    *ret_key = kernel_name_packaged(l->name);
    object = find(hot, ret_key);
    return object && kernel_is_visible(object, l->uid) ? object : NULL;
}

/* Damage and errors that a look-up found. Allocated separately, because the struct is large. */
struct lookup_report {
    struct package_found by_key, by_name;
    struct kiln_err trouble;
};

struct kernel_lookup {
    struct kernel_store *store;
    struct package_set *packages;
    uid_t uid; /* the user whose imported names are searched */
    /* The user on whose behalf the store is searched; usually |uid|. */
    struct kernel_reader reader;
    struct digest asked;
    const struct kernel_name *name; /* borrowed; NULL: packages are searched by key only */
    /* |shared_key| is the key that the kernel has if it is stored for all users, because an
     * administrator imported or promoted it. */
    bool has_shared_key;
    struct digest shared_key; /* replaced if the look-up tries keys with a version of MIOpen */
    enum kiln_code found;
    enum tier tier;
    struct object *object; /* owned reference */
    bool damaged, shared_damaged;
    bool is_shared; /* the object was found under shared_key */
    bool packaged;
    struct lookup_report *report;
};

static inline bool lookup_report_is_needed(const struct lookup_report *r)
{
    return r->by_key.damaged[0] || r->by_name.damaged[0] || r->trouble.code;
}

void kernel_lookup(struct kernel_lookup *l);
