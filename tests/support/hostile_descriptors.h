/* SPDX-License-Identifier: MIT */
#pragma once

/* Descriptors that a hostile client may send in place of a file: not a file, endless, not
 * readable, or changing while it is read. */
#include <stdbool.h>
#include <stddef.h>

struct hostile_descriptor {
    const char *name;
    /* Opens the descriptor, which the caller owns. Returns -1 if this Linux has no such
     * descriptors or refuses to send them. */
    int (*open)(void);
    /* fstat(2) reports a regular file, so kilnd must read the file to notice that it is unusable */
    bool is_regular;
};

extern const struct hostile_descriptor hostile_descriptors[];
extern const size_t hostile_descriptor_count;
