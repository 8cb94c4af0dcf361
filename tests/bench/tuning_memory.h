/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The memory use of the calling process.
 *
 * Role       counts every heap allocation, because it replaces this program's malloc(3)
 * Threading  only one thread may call process_memory; allocations of all threads count
 */
#include "common/base/err.h"

#include <stdint.h>

/* bytes; the first two count whole pages, from /proc/self/smaps_rollup */
struct process_memory {
    uint64_t resident;
    uint64_t own;  /* part of |resident| that no file backs: heap, stack, written pages */
    uint64_t kept; /* allocated with malloc by any code, and not freed */
};
/* The first call touches new pages, so call this function once before a comparison. */
KILN_MUST_CHECK enum kiln_code process_memory(struct process_memory *ret_memory,
                                              struct kiln_err *err);
