/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A process namespace needs a first process, and somebody outside who tells how the one that
 * matters ended.
 *
 *     keeper (the process that calls)          waits; ends as the worker did, by the same signal
 *       +- first process of the namespace      reaps orphans; its end is everybody's
 *       +- worker (what supervisor_fork returns in) an ordinary process there: it can abort, and
 * run out of processor time, which a first process cannot
 *
 * All three are one process group.  Whoever kills the keeper ends all (PR_SET_PDEATHSIG), and so
 * does the end of the keeper's own parent, from the call of supervisor_fork on.
 *
 * Ownership  the keeper keeps no descriptor but standard error
 * Threading  before any thread is started
 */
#include "common/err.h"

/* Whoever may make the namespace gives up what it is able to: in the keeper and in the first
 * process, which go on with less than the worker needs to begin with.  False: it must end. */
typedef bool supervisor_give_up(void *context);

/* After unshare(CLONE_NEWPID).  Returns in the worker; the others never do.  On failure it returns
 * in who called, with nobody left in the namespace: KILN_UNAVAILABLE where the first process could
 * not give up what it is able to. */
KILN_MUST_CHECK enum kiln_code supervisor_fork(supervisor_give_up *give_up, void *context,
                                               struct kiln_err *err);
