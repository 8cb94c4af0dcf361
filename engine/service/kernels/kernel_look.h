/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The look-up of a kernel: first the store, then the packages, each under all keys and names that
 * the kernel has.
 *
 * Role       serves a fetch, and why_miss, which must report what a fetch would find
 * Ownership  borrows its inputs; the object that was found belongs to the caller
 * Threading  a work queue; store and packages may be used by any number of threads
 */
#include "common/messages.h"
#include "engine/package/package_set.h"
#include "engine/service/kernels/name_key.h"
#include "engine/store/kernel_name.h"
#include "engine/store/kernel_store.h"

struct kernel_look {
    struct kernel_store *store;   /* borrowed */
    struct package_set *packages; /* borrowed */
    uid_t uid;                    /* the user whose names are searched */
    struct kernel_reader
        reader;          /* the reader on whose behalf the store is searched: usually |uid| */
    struct digest asked; /* the kernel's key */
    const struct kernel_name *name; /* borrowed; NULL: packages are searched by key only */
    bool
        has_shared_key; /* with a name: the kernel has a key in the caches imported for all users */
    struct digest shared_key; /* after the look-up: the key of the version that was tried last */
    /* Filled. */
    enum kiln_code found;
    enum tier tier;
    struct object *object; /* owned reference */
    bool damaged, shared_damaged;
    bool is_shared;                       /* the object was found under shared_key */
    bool packaged;                        /* the object is from a package, found by name only */
    struct package_found by_key, by_name; /* the packages' results */
    struct kiln_err trouble;              /* code KILN_OK if there was none */
};

void kernel_look(struct kernel_look *look);
