/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Joins requests for near ranges of one file, so that one request to the store answers several. A
 * job's kernels are adjacent in their pack, and each request to a store takes a round trip.
 *
 * Ownership  plain values; a range borrows the requests
 * Threading  pure functions
 */
#include "engine/transfer/fleet_wire.h"

#include <stddef.h>

/* Bytes between two ranges that are fetched in vain, rather than sending another request. */
#define FLEET_GAP_MAX (64u << 10)
/* A joined range is not larger than this, unless a single request is. */
#define FLEET_RANGE_MAX (4u << 20)

struct fleet_range { /* of one file, for |count| requests that follow each other in the array */
    struct fleet_request *requests;
    size_t count;
    uint64_t first, end; /* equal: the whole file */
};

/* Sorts |requests| so that those for one range follow each other. */
void fleet_ranges_sort(struct fleet_request *requests, size_t count);
/* Returns the range of the first requests. |count| must not be 0, and the requests sorted. */
struct fleet_range fleet_ranges_first(struct fleet_request *requests, size_t count);
