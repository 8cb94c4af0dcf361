/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Work queues: blocking work outside the loop, on threads with signals blocked.
 *
 * Role       WORK_QUEUE_READ runs up to |readers| tasks at once; one of several threads only runs
 *            brief tasks, so that brief tasks never wait for long ones.  The other queues run one
 *            task at a time.  Each queue is fair between users, by the time for which their tasks
 *            hold a thread
 * Ownership  tasks are borrowed until their done callback returns
 * Threading  all calls are made on the loop's thread.  A done callback runs there, exactly once,
 *            never within a call
 */
#include "daemon/loop/loop.h"
#include "engine/jobs/executor.h"

#include <stdbool.h>

struct work_queues;

KILN_MUST_CHECK enum kiln_code work_queues_create(struct loop *loop, unsigned readers,
                                                  struct work_queues **ret_work_queues,
                                                  struct kiln_err *err);
/* Call it only when no task is outstanding.  The last memory is freed in the loop's next
 * iteration. */
void work_queues_destroy(struct work_queues *work_queues);
void work_queues_run(struct work_queues *work_queues, enum work_queue work_queue,
                     struct task *task);
/* Returns true if the task was waiting; neither of its callbacks is then called. */
bool work_queues_cancel(struct work_queues *work_queues, enum work_queue work_queue,
                        struct task *task);
/* Counts tasks whose done callback has not run yet. */
unsigned work_queues_out(const struct work_queues *work_queues);
/* Returns how long the longest-running task has run so far; 0 if no task runs. */
uint64_t work_queues_longest_ns(const struct work_queues *work_queues);
