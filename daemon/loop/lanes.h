/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lanes: blocking work beside the loop, on threads that have no signals.
 *
 * Role       LANE_READ runs up to |readers| tasks at once; LANE_WRITE and LANE_TUNING one at a time
 *            each, in order.  Where many brief ones wait, a thread does some of them in a row
 * Ownership  tasks are borrowed until their done callback returns
 * Threading  called on the loop's thread; done runs there, exactly once, never within the call
 */
#include "daemon/loop/loop.h"
#include "engine/jobs/executor.h"

struct lanes;

KILN_MUST_CHECK enum kiln_code lanes_create(struct loop *loop, unsigned readers,
                                            struct lanes **ret_lanes, struct kiln_err *err);
/* Only when none is out; the loop's next turn, or its end, frees the last of it.  Accepts NULL. */
void lanes_destroy(struct lanes *lanes);
void lanes_run(struct lanes *lanes, enum lane lane, struct task *task);
/* Tasks that wait, run, or have not had their done callback. */
unsigned lanes_out(const struct lanes *lanes);
