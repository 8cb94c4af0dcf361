/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lanes: blocking work beside the loop, on threads that have no signals.
 *
 * Role       WORK_QUEUE_READ runs up to |readers| tasks at once; WORK_QUEUE_WRITE and
 * WORK_QUEUE_TUNING one at a time each, in order.  Where many brief ones wait, a thread does some
 * of them in a row Ownership  tasks are borrowed until their done callback returns Threading called
 * on the loop's thread; done runs there, exactly once, never within the call
 */
#include "daemon/loop/loop.h"
#include "engine/jobs/executor.h"

struct work_queues;

KILN_MUST_CHECK enum kiln_code work_queues_create(struct loop *loop, unsigned readers,
                                                  struct work_queues **ret_work_queues,
                                                  struct kiln_err *err);
/* Only when none is out; the loop's next turn, or its end, frees the last of it.  Accepts NULL. */
void work_queues_destroy(struct work_queues *work_queues);
void work_queues_run(struct work_queues *work_queues, enum work_queue work_queue,
                     struct task *task);
/* Tasks that wait, run, or have not had their done callback. */
unsigned work_queues_out(const struct work_queues *work_queues);
