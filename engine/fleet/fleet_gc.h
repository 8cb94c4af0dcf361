/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds and deletes the files of the fleet's tree that no reader needs (docs/formats/fleet.md).
 *
 * Threading  one collection or compaction of a tree at a time; pushes and readers may run meanwhile
 */
#include "engine/fleet/fleet_store.h"
#include "engine/fleet/fleet_trust.h"

/* Minimum age of the loose records, leases and temporary files that are deleted, and of the pack
 * that has a loose record's kernel, too. Hosts need these files for a much shorter time. A host
 * needs a packed kernel's loose record until it reads the new index, which takes some minutes. It
 * waits less than a minute for another host's kernel. */
#define FLEET_GC_GRACE_S 86400u
#define FLEET_GC_UNUSED_S (90u * 86400u)

enum fleet_waste {
    FLEET_WASTE_LOOSE, /* loose records that the current index has */
    /* Loose records that no host can ever use. A host cannot add its own record of the kernel as
     * long as such a file has the name. */
    FLEET_WASTE_USELESS,
    FLEET_WASTE_INDEX,
    FLEET_WASTE_PACK,
    FLEET_WASTE_LEASE,
    FLEET_WASTE_TEMPORARY, /* files that a push did not complete */
    FLEET_WASTES
};
const char *fleet_waste_label(enum fleet_waste waste);

struct fleet_garbage {
    const char *name; /* borrowed for the call; relative to the root of the tree */
    enum fleet_waste waste;
    uint64_t bytes, age_s;
};

struct fleet_gc { /* the caller sets the members up to |context| */
    struct fleet_store *store;
    const struct fleet_trust *trust;
    uint64_t now;      /* seconds since 1970 */
    uint64_t unused_s; /* an index or a pack is deleted after this time without use */
    bool dry_run;      /* delete nothing */
    void (*found)(void *context, const struct fleet_garbage *garbage);
    void *context;
    /* Results. */
    uint64_t files[FLEET_WASTES], bytes[FLEET_WASTES];
    /* |unpacked|: number of loose records that are not in the current index of their shard.
     * |unpacked_age_s|: age of the oldest of them. */
    uint64_t unpacked, unpacked_age_s;
    uint64_t unverified; /* indices that cannot be verified; if there are any, packs are kept */
};
KILN_MUST_CHECK enum kiln_code fleet_gc(struct fleet_gc *gc, struct kiln_err *err);
