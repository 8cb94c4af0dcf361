/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Shares the search for one solver's best config with other processes of the user on identical
 * devices: kilnd leases ranges of the candidates, and keeps the best of all reports.
 *
 * Ownership  the tuner owns its sharing
 * Threading  the thread that uses the tuner; blocks
 *
 * A process holds at least two shares, so that it can compile the next one while it measures.  A
 * share is reported when all of it was tried.  When the sharing ends, shares that were not reported
 * go to other processes.
 */
#include "libclient/conv/tuner.h"

struct sharing;

/* Begins to share a search.  |ret_sharing| is NULL if other processes cannot use its results,
 * because they are not recorded for the user, or because a toolchain was named. */
KILN_MUST_CHECK enum kiln_code sharing_create(struct tuner *tuner, struct sharing **ret_sharing,
                                              struct kiln_err *err);
void sharing_destroy(struct sharing *sharing);

/* Reports shares that were tried.  If no answer had another share for the queue, requests one.  If
 * kilnd rejects that, queues the whole space, because this process then searches alone. */
KILN_MUST_CHECK enum kiln_code sharing_next(struct sharing *sharing, struct kiln_err *err);
/* Like sharing_next.  If no share is left, waits for the reports of the other processes, which may
 * give shares back. */
KILN_MUST_CHECK enum kiln_code sharing_next_or_wait(struct sharing *sharing, struct kiln_err *err);

/* Returns whether another process has taken a share. */
bool sharing_has_company(const struct sharing *sharing);
/* Returns whether every candidate was measured, by any process. */
bool sharing_is_complete(const struct sharing *sharing);
/* Queues the best config that any process has recorded. */
KILN_MUST_CHECK enum kiln_code sharing_queue_best(struct sharing *sharing, struct kiln_err *err);
