/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Changes of the tuning databases, one at a time.
 *
 * Role       a change's job is made on the engine's thread, run on WORK_QUEUE_TUNING, then applied
 *            in parts, between which look-ups are served.  Reading all of the databases (an export,
 *            a diff) is queued as a change, too.  Two fair queues hold waiting changes: short and
 *            long ones.  Short changes go before long ones, also between the steps of a long one,
 *            but only so many that the long one still makes progress.  Another long change begins
 *            only when the first has ended
 * Ownership  a change is part of a request, which owns it until it was added; from then on the
 *            queue borrows it until |ended| was called or the change was withdrawn
 * Threading  the engine's thread, except for |work| and the job's events
 */
#include "engine/jobs/fair_queue.h"
#include "engine/service/internal.h"

#define TUNING_STOPPING "kilnd is stopping: ask again"

struct tuning_change;

struct tuning_change_kind {
    /* On the engine's thread, when the change may begin: makes change->job, or leaves it NULL where
     * there is only |work|.  Sets change->more to be called again for another step; |work| may do
     * so, too.  Short changes come between steps: a step may not borrow what they change. */
    enum kiln_code (*begin)(struct tuning_change *change, struct tuning *tuning,
                            struct kiln_err *err);
    /* Called on the work queue, after the job; may be NULL. */
    enum kiln_code (*work)(struct tuning_change *change, struct tuning *tuning,
                           struct kiln_err *err);
    /* On the engine's thread, now and then: sends a frame of progress; false when there is nothing
     * to send.  May be NULL. */
    bool (*send_progress)(struct tuning_change *change);
    /* Once, on the engine's thread: rc and err of the request say how.  The change is the
     * callee's. */
    void (*ended)(struct tuning_change *change);
    bool is_short; /* changes a record or two */
};

struct tuning_change {
    struct task task;
    struct fair_item item;
    const struct tuning_change_kind *kind;
    struct deferred *request; /* borrowed: that it is part of */
    uint64_t worked_ns;       /* on the work queue, not yet charged to the user */
    struct tuning_job *job;   /* owned */
    struct tuning_job_events events;
    struct tuning_counts counts; /* of its jobs so far */
    bool more, stepping, taken;
};

struct tuning_queue {
    struct fair_queue waiting[2];  /* of struct tuning_change: long ones, short ones */
    struct tuning_change *running; /* borrowed; NULL: none */
    struct tuning_change *paused;  /* borrowed: a long one between two of its steps; NULL: none */
    unsigned shorts;               /* short ones since the last step of a long one */
};

void tuning_queue_init(struct tuning_queue *queue);
/* Only when it is empty; accepts a zeroed one. */
void tuning_queue_done(struct tuning_queue *queue);
/* |change| has its kind, its request and, where it wants some, its events.  It may have ended
 * before this returns.  KILN_BUSY when too many wait, of one user or in all; KILN_UNAVAILABLE. */
KILN_MUST_CHECK enum kiln_code tuning_queue_add(struct tuning_change *change, struct kiln_err *err);
/* True: it had not begun, and is the caller's again. */
bool tuning_queue_withdraw(struct tuning_change *change);
/* Changes that wait end as KILN_UNAVAILABLE. */
void tuning_queue_drain(struct engine *e);
/* Sends the progress of the running one. */
void tuning_queue_tick(struct engine *e);
