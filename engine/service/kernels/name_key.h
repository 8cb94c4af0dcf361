/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The name of a kernel in packages and imported caches: (database id, kernel name, kernel
 * arguments), verbatim.
 *
 * Ownership  a struct kernel_name borrows; a struct name_key is a copy that outlives its request.
 *            The copy is charged to its user's budget until it is destroyed
 * Threading  the engine's thread; read-only elsewhere
 */
#include "engine/service/internal.h"

struct kernel_name {
    struct bytes database_id, name, args;
    /* Canonical text of the target that the object must have; empty: any target. */
    struct bytes target;
};

/* Returns the key under which the hot set has a package's object. The key is made from the name,
 * because a package states no source. */
struct digest kernel_name_packaged(const struct kernel_name *name);

/* Checks a name that a client sent. |database_id| may contain a version of MIOpen, which
 * distinguishes imported caches. Packages have no versions, so |ret_name| has none. |ret_name|
 * borrows from the inputs. */
KILN_MUST_CHECK enum kiln_code kernel_name_take(struct bytes database_id, struct bytes name,
                                                struct bytes args, struct kernel_name *ret_name,
                                                struct kiln_err *err);

struct name_key {
    struct kernel_name name;
    struct engine *engine;
    uid_t uid;
    size_t size;
    char storage[];
};

/* Returns KILN_BUSY if the copy exceeds the user's budget, or KILN_NO_MEMORY. */
KILN_MUST_CHECK enum kiln_code name_key_copy(struct engine *e, uid_t uid,
                                             const struct kernel_name *name,
                                             struct name_key **ret_name_key, struct kiln_err *err);
void name_key_destroy(struct name_key *a);
