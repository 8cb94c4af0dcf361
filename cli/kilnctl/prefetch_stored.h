/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks that prefetched kernels are on disk: kilnd answers first and stores afterwards.
 *
 * Role       compares kilnd's counters before and after the prefetch.  If kernels may have been
 *            lost, checks each kernel, because the lost kernels may be other users'
 * Ownership  plain values
 * Threading  one thread
 */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/prefetch_report.h"

#include <stdint.h>

struct prefetch_stored {
    uint64_t lost_before;
};

/* Reads the counters before the prefetch.  An older kilnd without them is assumed to store all
 * kernels. */
CLI_MUST_CHECK int prefetch_stored_begin(const struct invocation *invocation,
                                         struct prefetch_stored *ret_kept, struct kiln_error *err);
/* Waits until kilnd has written, or failed to write, everything compiled so far.  Returns
 * KILN_E_FULL or KILN_E_IO, with kilnd's reason, if kernels of |report| are only in kilnd's memory;
 * |not_stored| of the report is then their number.  A cache that the settings switch off is not a
 * failure. */
CLI_MUST_CHECK int prefetch_stored_check(const struct invocation *invocation,
                                         const struct prefetch_stored *kept,
                                         struct prefetch_report *report, struct kiln_error *err);
