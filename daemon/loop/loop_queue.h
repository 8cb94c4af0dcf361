/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Work that must run on the loop's own thread: requests that have arrived, and what the engine
 * defers to the end of an iteration.
 *
 * Role       runs tasks for a time slice of each loop iteration, fairly between users.  Events are
 *            handled in between
 * Ownership  tasks are borrowed until their done callback is called, which may free the task
 * Threading  the loop's thread
 */
#include "daemon/loop/loop.h"
#include "engine/jobs/executor.h"

#include <stdbool.h>

/* Time in each iteration during which tasks may begin.  The last task may end later.  A request
 * that arrives meanwhile waits for that task, even if the request's user has used little time. */
#define LOOP_SLICE_NS 1000000u

/* Adds a task.  Only the task's done callback is called: after the events that have arrived by now,
 * and never within this call. */
void loop_queue_add(struct loop *loop, struct task *task);
/* Returns true if the task was waiting; its done callback is then not called.  Accepts a task that
 * was never added. */
bool loop_queue_cancel(struct loop *loop, struct task *task);
