/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Collects all records of a shard from a fleet's tree: the pointer, the index that it names, and
 * the index's packs. Remembers no epochs, so an old index is not noticed.
 *
 * Ownership  a struct fleet_collection owns the packs, from which the records borrow
 * Threading  one thread; every call blocks
 */
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_store.h"

struct fleet_index;

struct fleet_collection { /* the caller sets the members up to |bytes_max| */
    struct fleet_store *store;
    const struct fleet_trust *trust;
    struct fleet_shard shard;
    uint64_t now;       /* seconds since 1970 */
    uint64_t bytes_max; /* of all packs together; the first packs, which are the oldest, are not
                         * read if they do not fit */
    /* Results; owned. */
    struct fleet_index *index;
    struct buffer *packs;
    uint32_t first_pack;          /* the first pack that was read */
    struct fleet_record *records; /* not verified yet; the newest first */
    size_t count;
    uint64_t malformed;
};

/* Returns KILN_NOT_FOUND if the tree has no index of the shard. */
KILN_MUST_CHECK enum kiln_code fleet_collect(struct fleet_collection *collection,
                                             struct kiln_err *err);
void fleet_collection_done(struct fleet_collection *collection);
