/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Adds kernels to the fleet's tree, each as a loose record (a file with one record).
 *
 * Threading  any thread; several processes may push to one tree
 */
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_store.h"

struct fleet_pushing { /* the caller sets the first two members and zeroes the others */
    struct fleet_store *store;
    const struct fleet_signer *signer;
    uint64_t added;
    uint64_t present; /* the tree had a file for the key already */
};

/* Signs the records in place, and adds them. Returns KILN_CORRUPT if a record is malformed or
 * truncated; the records before it are added. */
KILN_MUST_CHECK enum kiln_code fleet_push(struct fleet_pushing *pushing, uint8_t *records,
                                          size_t size, struct kiln_err *err);
