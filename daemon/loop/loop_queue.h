/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Work that must run on the loop's own thread: requests that have arrived, and what the engine
 * defers to the end of an iteration.
 *
 * Role       serves users in fair order, by the time that their tasks took, for a slice of each
 *            loop iteration.  Tasks that remain go on in the next iteration, so events of other
 *            users are seen in between
 * Ownership  tasks are borrowed until their done callback is called; it may free its task
 * Threading  the loop's thread
 */
#include "daemon/loop/loop.h"
#include "engine/jobs/executor.h"

#include <stdbool.h>

/* The time that tasks may take in one loop iteration. The last task may exceed it. */
#define LOOP_SLICE_NS 5000000u

/* Runs the task's done callback (it needs no |work|) after the events that have arrived by now,
 * never within this call. */
void loop_queue_add(struct loop *loop, struct task *task);
/* True: the task was waiting, and its done callback is not called. Accepts a task that was never
 * added. */
bool loop_queue_cancel(struct loop *loop, struct task *task);
