/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the tuning databases are asked to do, one thing after the other.
 *
 * Role       a turn's job is made on the engine's thread, worked off on LANE_TUNING, then taken
 *            over in parts between which look-ups are served.  What reads all of the databases
 *            (exports, a diff) has a turn too.  Users take turns, and what is short goes before
 *            what is long: between the steps of a long turn short ones have theirs, and never
 *            another long one
 * Ownership  a turn is part of a request and belongs to it until it was added; from then on to the
 *            queue until |ended|, or until it is withdrawn
 * Threading  the engine's thread, but for |work| and the job's events
 */
#include "engine/service/internal.h"

#define TUNING_STOPPING "kilnd is stopping: ask again"

struct tuning_change;

struct tuning_change_kind {
    /* On the engine's thread, when its turn has come: makes change->job, or leaves it NULL where
     * there is only |work|.  Sets change->more when it wants to be called again after this one;
     * |work| may too. Short turns come in between: nothing that they change may be borrowed from
     * step to step. */
    enum kiln_code (*begin)(struct tuning_change *change, struct tuning *tuning,
                            struct kiln_err *err);
    /* On the lane, after the job; may be NULL. */
    enum kiln_code (*work)(struct tuning_change *change, struct tuning *tuning,
                           struct kiln_err *err);
    /* On the engine's thread, now and then: sends a frame of what there is to tell; false when
     * there is nothing.  May be NULL. */
    bool (*tell)(struct tuning_change *change);
    /* Once, on the engine's thread: change->rc and change->err say how.  The turn is the callee's.
     */
    void (*ended)(struct tuning_change *change);
    bool is_short; /* changes a record or two */
};

struct tuning_change {
    struct task task;
    const struct tuning_change_kind *kind;
    struct engine *engine;
    struct tuning_change *next;
    uid_t uid;
    uint64_t round;         /* when its user's turn is */
    struct tuning_job *job; /* owned */
    struct tuning_job_events events;
    struct tuning_counts counts; /* of its jobs so far */
    bool more, stepping, taken;
    enum kiln_code rc;
    struct kiln_err err;
};

/* KILN_OK, or KILN_UNAVAILABLE with the reason. */
KILN_MUST_CHECK enum kiln_code tuning_ready(const struct engine *e, struct kiln_err *err);
/* |change| has its kind and, where it wants some, its events.  It may have ended before this
 * returns. KILN_BUSY when too many wait, of |uid| or in all; KILN_UNAVAILABLE. */
KILN_MUST_CHECK enum kiln_code tuning_queue_add(struct engine *e, uid_t uid,
                                                struct tuning_change *change, struct kiln_err *err);
/* True: it had not begun, and is the caller's again. */
bool tuning_queue_withdraw(struct tuning_change *change);
/* What waits ends as KILN_UNAVAILABLE. */
void tuning_queue_drain(struct engine *e);
/* Tells how far the running one is. */
void tuning_queue_tick(struct engine *e);
