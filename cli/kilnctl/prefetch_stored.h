/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Whether what was compiled meanwhile is on the disk: kilnd answers first, and stores afterwards.
 *
 * Role       compares kilnd's counters of before and after; where they leave a doubt, asks for each
 *            kernel, so that neither what others lost nor a full disk that kept all counts
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/prefetch_report.h"

#include <stdint.h>

struct prefetch_stored {
    uint64_t lost_before; /* puts that were not kept */
};

/* An older kilnd, which has no such counters, is taken to keep everything. */
CLI_MUST_CHECK int prefetch_stored_begin(const struct invocation *invocation,
                                         struct prefetch_stored *ret_kept, struct kiln_error *err);
/* Waits until all that was compiled so far is written, or not, as long as there is progress.
 * KILN_E_FULL or KILN_E_IO, with kilnd's reason, where kernels of |report|, |not_stored| of them,
 * are in kilnd's memory and not on its disk; a cache that is switched off by its settings is no
 * failure. */
CLI_MUST_CHECK int prefetch_stored_check(const struct invocation *invocation,
                                         const struct prefetch_stored *kept,
                                         struct prefetch_report *report, struct kiln_error *err);
