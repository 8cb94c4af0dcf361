/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who has a kernel: the store, then the packages, each asked by all that the kernel is known under.
 *
 * Role       the look-up of a fetch, and of why_miss, which must say what a fetch would find
 * Ownership  borrows what is asked; the object that was found is the caller's
 * Threading  a lane; store and packages take any number of threads
 */
#include "common/messages.h"
#include "engine/package/package_set.h"
#include "engine/service/kernels/name_key.h"
#include "engine/store/kernel_name.h"
#include "engine/store/kernel_store.h"

struct kernel_look {
    struct kernel_store *store;     /* borrowed */
    struct package_set *packages;   /* borrowed */
    uid_t uid;                      /* whose names count */
    struct kernel_reader reader;    /* for whom the store is looked into: |uid|, as a rule */
    struct digest asked;            /* the kernel's key */
    const struct kernel_name *name; /* borrowed; NULL: packages are asked by key alone */
    bool has_shared_key;            /* with a name: where everyone's imported kernels have it */
    struct digest shared_key;       /* after the look-up: of the version that was looked for last */
    /* Filled. */
    enum kiln_code found;
    enum tier tier;
    struct object *object; /* owned reference */
    bool damaged, shared_damaged;
    bool is_shared;                       /* the object is shared_key's */
    bool packaged;                        /* the object is a package's, by the name alone */
    struct package_found by_key, by_name; /* what packages said */
    struct kiln_err trouble;              /* code KILN_OK when there was none */
};

void kernel_look(struct kernel_look *look);
