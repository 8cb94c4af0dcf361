/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Verifies a whole tree as readers would: pointers, indices, and every record that an index names.
 *
 * Threading  any thread; pushes, compactions and readers may run meanwhile
 */
#include "common/target/target.h"
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_store.h"

struct fleet_verification { /* the caller sets the members up to |context| */
    struct fleet_store *store;
    const struct fleet_trust *trust;
    /* Checks that |object| is code for |target|, as kilnd does before it uses the object. */
    enum kiln_code (*check_object)(struct bytes object, const struct target *target,
                                   struct kiln_err *err);
    /* Called for each file or record that readers would not use. |what| is the name of the file,
     * and for a record, also its offset. */
    void (*bad)(void *context, const char *what, const char *why);
    void *context;
    /* Results. */
    uint64_t shards, kernels, bytes, bad_count;
    uint64_t blocks; /* records of shards with series (fleet_series.h) */
};

/* Returns KILN_OK even if the tree is damaged: |bad_count| is then not 0. */
KILN_MUST_CHECK enum kiln_code fleet_verify(struct fleet_verification *verification,
                                            struct kiln_err *err);
