/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Waits, during kilnd's start, for a process that holds the socket and the locks of a killed kilnd.
 *
 * Role       if kilnd is killed while it starts a process, that process holds copies of kilnd's
 *            listening socket and locks until it executes its program.  The next kilnd waits for
 *            that moment
 * Ownership  nothing
 * Threading  the loop's thread, before the loop runs; blocks for two seconds and one step at most
 */
#include "common/base/err.h"

/* A step of kilnd's start.  If it returns KILN_BUSY, it has changed nothing and may be repeated. */
typedef enum kiln_code start_step(void *context, struct kiln_err *err);

/* Runs |step|, and repeats it while it returns KILN_BUSY.  Returns KILN_BUSY, with the step's own
 * message, if the time limit has passed.  Logs once what kilnd waits for. */
KILN_MUST_CHECK enum kiln_code start_wait(start_step *step, void *context, struct kiln_err *err);
