/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shares the search for one solver's best config with other processes of the user on identical
 * devices. kilnd leases ranges of the candidates (shares) to the processes, and keeps the best of
 * all reports.
 *
 * A process holds at least two shares, so that it can compile the next one while it measures.  A
 * process reports a share when all its candidates were tried.  When the sharing ends, kilnd gives
 * the shares that were not reported to other processes.
 *
 * Ownership  the tuner owns its sharing
 * Threading  the thread that uses the tuner; blocks
 */
#include "libclient/conv/tuner.h"

struct sharing;

/* Prepares to share the search.  If the search cannot be shared, leaves |ret_sharing| unchanged.
 * Reasons are that its results are not recorded for the user, that the caller named a toolchain, or
 * that the space is too large. */
KILN_MUST_CHECK enum kiln_code sharing_create(struct tuner *tuner, struct sharing **ret_sharing,
                                              struct kiln_err *err);
void sharing_destroy(struct sharing *sharing);

/* Reports the shares that were tried.  If kilnd's answers contain no new share to queue, requests
 * one.  If kilnd rejects the request, queues the whole space, because this process then searches
 * alone. */
KILN_MUST_CHECK enum kiln_code sharing_next(struct sharing *sharing, struct kiln_err *err);
/* Like sharing_next.  If no share is left, waits for the reports of the other processes, because
 * the share of a process that ends without a report becomes free. */
KILN_MUST_CHECK enum kiln_code sharing_next_or_wait(struct sharing *sharing, struct kiln_err *err);

/* Returns whether another process has taken a share. */
bool sharing_has_company(const struct sharing *sharing);
/* Returns whether every candidate was measured, by any process. */
bool sharing_is_complete(const struct sharing *sharing);
/* Returns whether this process got all shares that were left.  Other processes may still measure
 * theirs. */
bool sharing_is_exhausted(const struct sharing *sharing);
/* Returns whether another search has recorded a config since this one began.  kilnd then grants the
 * same candidates once more. */
bool sharing_is_over(const struct sharing *sharing);
KILN_MUST_CHECK enum kiln_code sharing_queue_best(struct sharing *sharing, struct kiln_err *err);
