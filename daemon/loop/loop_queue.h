/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Work that must run on the loop's own thread: requests that have arrived, and what the engine
 * defers to the end of an iteration.
 *
 * Role       runs tasks for a time slice of each loop iteration, in an order that is fair between
 *            users: it depends on the time that their tasks took.  The remaining tasks run in the
 *            next iterations, so that events of other users are handled in between
 * Ownership  tasks are borrowed until their done callback is called, which may free the task
 * Threading  the loop's thread
 */
#include "daemon/loop/loop.h"
#include "engine/jobs/executor.h"

#include <stdbool.h>

/* The time that tasks may take in one loop iteration. The last task may exceed the limit.  A
 * request that arrives meanwhile may wait that long, even if its user has used little time. */
#define LOOP_SLICE_NS 1000000u

/* Adds a task, of which only the done callback is used (|work| may be unset).  The callback runs
 * after the events that have arrived by now, never within this call. */
void loop_queue_add(struct loop *loop, struct task *task);
/* Cancels a task.  Returns true if it was waiting; its done callback is then not called.  Accepts a
 * task that was never added. */
bool loop_queue_cancel(struct loop *loop, struct task *task);
