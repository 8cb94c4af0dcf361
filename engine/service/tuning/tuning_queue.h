/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Changes of the tuning databases, one step at a time.
 *
 * Role       a change's job is made on the engine's thread, run on WORK_QUEUE_TUNING, then applied
 *            in parts, between which look-ups are served.  Reading all of the databases (an export,
 *            a diff) is queued as a change, too.  A change consists of steps of its request.  Each
 *            waits in one request queue, so the user whose steps took least time is served next: a
 *            put waits for one step of another user's import, and imports of two users alternate
 * Ownership  a change is part of a request, which owns it until it was added; from then on the
 *            queue borrows it until |ended| was called or the request was cancelled
 * Threading  the engine's thread, except for |work| and the job's events
 */
#include "engine/service/internal.h"

#define TUNING_STOPPING "kilnd is stopping: try again"

struct tuning_change;

struct tuning_change_kind {
    /* Called on the engine's thread when the change may begin its next step, unless its job has
     * more steps. Makes change->job, or leaves it NULL if there is only |work|. Either function may
     * set change->more to run another step. Other changes run between steps, so a change must not
     * borrow from the databases from one step to the next. */
    enum kiln_code (*begin)(struct tuning_change *change, struct tuning *tuning,
                            struct kiln_err *err);
    /* Called on the work queue, after the job; may be NULL. */
    enum kiln_code (*work)(struct tuning_change *change, struct tuning *tuning,
                           struct kiln_err *err);
    /* Called on the engine's thread from time to time: sends a frame of progress. False if there
     * is none. May be NULL. */
    bool (*send_progress)(struct tuning_change *change);
    /* Called once, on the engine's thread: rc and err of the request are the result. The callee
     * owns the change again. */
    void (*ended)(struct tuning_change *change);
};

struct tuning_change {
    const struct tuning_change_kind *kind;
    struct deferred *request; /* the request that the change is part of; borrowed */
    struct tuning_job *job;   /* owned */
    struct tuning_job_events events;
    struct tuning_counts counts; /* sums of its jobs so far */
    uint64_t charged;            /* bytes that the request was charged for its jobs */
    bool has_begun, more, stepping, taken;
    bool gives_up; /* its job has no more steps, and frees what they needed */
};

/* |change| needs its kind and its request, whose group limits how many may wait; its events are
 * optional. KILN_UNAVAILABLE without databases. */
KILN_MUST_CHECK enum kiln_code tuning_queue_add(struct tuning_change *change, struct kiln_err *err);
/* True: the change waits and has not begun, so its request may be destroyed. */
bool tuning_queue_may_stop(const struct tuning_change *change);
/* Ends waiting changes with KILN_UNAVAILABLE. */
void tuning_queue_drain(struct engine *e);
/* Sends the progress of the running change. */
void tuning_queue_tick(struct engine *e);
