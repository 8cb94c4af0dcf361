/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Changes of the tuning databases, one step at a time.
 *
 * Role       A change's job is created on the engine's thread, run on WORK_QUEUE_TUNING, then
 *            applied in parts, between which look-ups are served. A request that reads all of the
 *            databases (an export, a diff) is queued as a change, too. The steps of all changes
 *            wait in one request queue, which next serves the user whose steps took the least time.
 *            So a put waits for at most one step of another user's import
 * Ownership  a change is part of a request, which owns it. The queue borrows the change from
 *            tuning_queue_add until |ended| was called or the request was cancelled
 * Threading  the engine's thread, except for |work| and the job's events
 */
#include "engine/service/internal.h"

#define TUNING_STOPPING "kilnd is stopping: try again"

struct tuning_change;

struct tuning_change_kind {
    /* Called on the engine's thread before each step, unless change->job continues. Creates
     * change->job, or leaves it NULL if only |work| runs. |begin| and |work| may set
     * change->more to request another step. Between steps, a change must not keep pointers into the
     * databases, because other changes may run. */
    enum kiln_code (*begin)(struct tuning_change *change, struct tuning *tuning,
                            struct kiln_err *err);
    /* Called on the work queue after the step of the job, if there is a job. May be NULL. */
    enum kiln_code (*work)(struct tuning_change *change, struct tuning *tuning,
                           struct kiln_err *err);
    /* Sends a frame of progress, or returns false if there is none. May be NULL. */
    bool (*send_progress)(struct tuning_change *change);
    /* Called once, on the engine's thread, when request->rc and request->err have the result. */
    void (*ended)(struct tuning_change *change);
};

struct tuning_change {
    const struct tuning_change_kind *kind;
    struct deferred *request; /* borrowed; this request contains the change */
    struct tuning_job *job;
    struct tuning_job_events events;
    struct tuning_counts counts; /* sums of the change's jobs so far */
    uint64_t charged;
    bool has_begun, more, stepping, taken;
    bool needs_no_caller; /* the engine itself requests the change */
    bool gives_up; /* the job runs no further step, and frees what further steps would need */
};

/* Queues a change. The caller sets |kind| and |request|, and may set |events|. Returns
 * KILN_UNAVAILABLE if the databases are not open. */
KILN_MUST_CHECK enum kiln_code tuning_queue_add(struct tuning_change *change, struct kiln_err *err);
/* Returns true if the change has not begun, so that its request may be destroyed. */
bool tuning_queue_may_stop(const struct tuning_change *change);
/* Ends waiting changes with KILN_UNAVAILABLE. */
void tuning_queue_drain(struct engine *e);
void tuning_queue_tick(struct engine *e);
