/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compaction: packs the loose records of the fleet's tree, and writes indices that name the packs.
 *
 * Role       runs on one host, whose key may sign indices. If a compaction is interrupted at any
 *            point, the tree stays valid, and the next compaction does the rest
 * Threading  one compaction of a tree at a time; pushes and readers may run meanwhile
 */
#include "engine/fleet/fleet_record.h"

/* A pack that has reached this size gets no further record. */
#define FLEET_PACK_MAX (64u << 20)

struct fleet_compaction { /* the caller sets the members up to |pack_max| */
    int root;
    const struct fleet_trust *trust;
    const struct fleet_signer *signer;
    uint64_t now;      /* seconds since 1970 */
    uint64_t pack_max; /* bytes; FLEET_PACK_MAX, except in tests */
    /* Results. */
    uint64_t shards; /* shards that got a new index */
    uint64_t kernels, packs;
    uint64_t refused[FLEET_FAULTS]; /* loose records, by reason */
};

KILN_MUST_CHECK enum kiln_code fleet_compact(struct fleet_compaction *compaction,
                                             struct kiln_err *err);
