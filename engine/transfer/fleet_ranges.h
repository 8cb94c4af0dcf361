/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Joins kilnd's requests for ranges of one file that are close together. One request to the store
 * then answers several of them. Joining saves round trips, because the kernels of a job are mostly
 * adjacent in their pack file.
 *
 * Ownership  plain values; a range borrows the requests
 * Threading  pure functions
 */
#include "engine/transfer/fleet_wire.h"

#include <stddef.h>

/* Maximum number of bytes between two ranges that are joined. Fetching this many unneeded bytes
 * takes less time than another request. */
#define FLEET_GAP_MAX (64u << 10)
/* Maximum size of a joined range, unless one request alone is larger. */
#define FLEET_RANGE_MAX (4u << 20)

struct fleet_range { /* a range of one file, which answers |count| requests */
    struct fleet_request *requests;
    size_t count;
    uint64_t first, end; /* bytes from |first| up to, but not including, |end|; if both are equal,
                          * the whole file */
};

/* Sorts |requests| so that requests that can be joined follow each other. */
void fleet_ranges_sort(struct fleet_request *requests, size_t count);
/* Returns a range that answers the first request, and the following requests that can be joined
 * with the first. |requests| must be sorted, and |count| must not be 0. */
struct fleet_range fleet_ranges_first(struct fleet_request *requests, size_t count);
