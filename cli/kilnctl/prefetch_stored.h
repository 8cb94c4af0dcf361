/* SPDX-License-Identifier: MIT */
#pragma once

/* Checks that prefetched kernels are on disk. kilnd answers a request first, and stores the kernels
 * afterwards.
 *
 * Role       reads kilnd's counter of lost kernels before and after the prefetch.  If the counter
 *            has grown, checks each kernel that was not on disk when kilnd answered, because the
 *            counter includes kernels of other users
 * Ownership  plain values
 * Threading  one thread */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/prefetch_report.h"

#include <stdint.h>

struct prefetch_stored {
    uint64_t lost_before;
};

/* Reads kilnd's counters before the prefetch. If an older kilnd has none, prefetch_stored_check
 * assumes that all kernels are stored. */
CLI_MUST_CHECK int prefetch_stored_begin(const struct invocation *invocation,
                                         struct prefetch_stored *ret_kept, struct kiln_error *err);
/* Waits until kilnd has written, or failed to write, all kernels compiled so far. If kilnd has some
 * kernels of |report| only in memory, returns KILN_E_FULL or KILN_E_IO with kilnd's reason, and
 * sets |not_stored| of the report to the number of these kernels. Returns KILN_E_OK if the settings
 * switch the cache off. */
CLI_MUST_CHECK int prefetch_stored_check(const struct invocation *invocation,
                                         const struct prefetch_stored *kept,
                                         struct prefetch_report *report, struct kiln_error *err);
