/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Processes that are nobody's children: no wait of this process, which may be anybody's, sees them,
 * and no signal tells it of their end.
 *
 * Threading  one thread at a time, which blocks every signal (quiet_thread.h)
 */
#include "common/err.h"
#include "daemon/loop/spawn.h"

/* Returns when the program runs or could not be run.  Whoever starts one has another way to hear of
 * its end and to cause it: its descriptor 3. */
KILN_MUST_CHECK enum kiln_code loop_orphan_start(const struct loop_spawn *spawn,
                                                 struct kiln_err *err);
/* Where orphans come to this process (process 1, a subreaper) each has a parent, which ends with it
 * and is to be reaped: those that have by now, or do within |patience_ms|. */
void loop_orphans_reap(unsigned patience_ms);
/* In a child of fork, which has none of them. */
void loop_orphans_disown(void);
