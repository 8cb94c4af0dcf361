/* SPDX-License-Identifier: MIT */
#pragma once

/* Measures the memory of the calling process.
 *
 * Role       replaces this program's malloc(3) to count all allocations
 * Threading  only one thread may call process_memory; allocations of all threads count */
#include "common/base/err.h"

#include <stdint.h>

/* Bytes. |resident| and |own| are from /proc/self/smaps_rollup and count whole pages. */
struct process_memory {
    uint64_t resident;
    uint64_t own;  /* part of |resident| that is not in files: heap, stack, written pages */
    uint64_t kept; /* allocated with malloc and not freed */
};
/* The first call touches new pages itself, so call this function once before the measurement. */
KILN_MUST_CHECK enum kiln_code process_memory(struct process_memory *ret_memory,
                                              struct kiln_err *err);
