/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the calling process holds in memory.
 *
 * Role       counts every piece of the heap: this program's malloc(3) is its own
 * Threading  one thread asks; pieces of any are counted
 */
#include "common/err.h"

#include <stdint.h>

struct process_memory { /* bytes; the first two from /proc/self/smaps_rollup, page by page */
    uint64_t resident;
    uint64_t own;  /* part of resident that no file backs: what it wrote, heap and stack */
    uint64_t kept; /* asked of malloc by anyone in it and not given back */
};
/* Its first call touches pages of its own: call it once ahead of a comparison. */
KILN_MUST_CHECK enum kiln_code process_memory(struct process_memory *ret_memory,
                                              struct kiln_err *err);
