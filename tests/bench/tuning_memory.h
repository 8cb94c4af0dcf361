/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the calling process holds in memory.
 *
 * Threading  one thread
 */
#include "common/err.h"

#include <stdint.h>

struct process_memory { /* bytes; the first two from /proc/self/smaps_rollup, page by page */
    uint64_t resident;
    uint64_t own;  /* part of resident that no file backs: what it wrote, heap and stack */
    uint64_t kept; /* asked of malloc and not given back; small pieces that malloc keeps for reuse
                      count too */
};
/* Its first call touches pages of its own: call it once ahead of a comparison. */
KILN_MUST_CHECK enum kiln_code process_memory(struct process_memory *ret_memory,
                                              struct kiln_err *err);
/* |kept| without those pieces, to the byte; takes some hundred KiB for the moment. */
uint64_t process_kept(void);
