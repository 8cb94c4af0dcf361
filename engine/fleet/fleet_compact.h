/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Compaction: copies loose records of the fleet's tree to packs, merges small packs, and writes
 * indices that name the packs. A loose record is a file with only one record.
 *
 * Role       runs on one host, whose key may sign indices. If a compaction is interrupted at any
 *            point, the tree stays valid, and the next compaction does the rest
 * Threading  one compaction of a tree at a time; pushes and readers may run meanwhile
 */
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_store.h"

/* Size of a full pack, which gets no further record. kiln-transfer can read and write a file of
 * this size within its time limit. */
#define FLEET_PACK_MAX (16u << 20)

struct fleet_compaction { /* the caller sets the members up to |context| */
    struct fleet_store *store;
    const struct fleet_trust *trust;
    const struct fleet_signer *signer;
    uint64_t now;      /* seconds since 1970 */
    uint64_t pack_max; /* bytes; FLEET_PACK_MAX, except in tests */
    uint32_t keys_max; /* kernels of an index; 0: FLEET_KEYS_MAX; smaller only in tests */
    size_t spool_max;  /* bytes of records in memory; 0: 256 MiB; smaller only in tests */
    /* Called for each shard that is left as it was, and for each pack that cannot be merged. |what|
     * is the id of the shard. */
    void (*problem)(void *context, const char *what, const char *why);
    void *context;
    /* Results. */
    uint64_t indices, kernels;
    uint64_t blocks;  /* new records of shards with series (fleet_series.h) */
    uint64_t packs;   /* new packs */
    uint64_t merged;  /* old packs whose records are in new packs now */
    uint64_t dropped; /* kernels of the oldest packs, which left a full index */
    uint64_t problems;
    uint64_t refused[FLEET_FAULTS]; /* records that are not packed, by reason */
};

/* Returns KILN_OK even if some shards could not be compacted: |problems| is then not 0. */
KILN_MUST_CHECK enum kiln_code fleet_compact(struct fleet_compaction *compaction,
                                             struct kiln_err *err);
