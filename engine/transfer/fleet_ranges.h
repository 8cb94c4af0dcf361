/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Joins kilnd's requests for ranges of one file that are close together. One request to the store
 * then answers several of them. Joining pays because each request to a store takes a round trip,
 * and the kernels of a job are mostly adjacent in their pack.
 *
 * Ownership  plain values; a range borrows the requests
 * Threading  pure functions
 */
#include "engine/transfer/fleet_wire.h"

#include <stddef.h>

/* Two ranges are joined if at most this many bytes are between them. Fetching these bytes in vain
 * is cheaper than another request. */
#define FLEET_GAP_MAX (64u << 10)
/* A joined range is not larger than this, unless a single request is. */
#define FLEET_RANGE_MAX (4u << 20)

struct fleet_range { /* a range of one file, which answers |count| requests */
    struct fleet_request *requests;
    size_t count;
    uint64_t first, end; /* if they are equal, the whole file */
};

/* Sorts |requests| so that those for one range follow each other. */
void fleet_ranges_sort(struct fleet_request *requests, size_t count);
/* Returns a range that answers the first request, and the following requests that can be joined
 * with the first. |requests| must be sorted, and |count| must not be 0. */
struct fleet_range fleet_ranges_first(struct fleet_request *requests, size_t count);
