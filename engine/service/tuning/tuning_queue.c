/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_queue.h"

#include "engine/service/tuning/tuning_state.h"

static struct tuning_change *change_of(const struct deferred *d) { return d->part; }

static void add_counts(struct tuning_counts *to, const struct tuning_counts *more)
{
    to->records += more->records;
    to->entries += more->entries;
    to->added += more->added;
    to->replaced += more->replaced;
    to->removed += more->removed;
    to->bad += more->bad;
    to->verbatim += more->verbatim;
    to->conflicts += more->conflicts;
    to->held += more->held;
    to->bytes += more->bytes;
    to->before += more->before;
}

static void drop_job(struct tuning_change *change)
{
    if (change->job)
        add_counts(&change->counts, tuning_job_counts(change->job));
    tuning_job_destroy(change->job);
    change->job = NULL;
}

static bool send_progress(struct tuning_change *change)
{
    return change->kind->send_progress && change->kind->send_progress(change);
}

static enum kiln_code charge_job(struct tuning_change *change)
{
    struct deferred *d = change->request;
    uint64_t bytes = tuning_job_bytes(change->job);
    if (bytes <= change->charged)
        return KILN_OK;
    if (deferred_charge(d, bytes - change->charged, &d->err))
        return kiln_while(&d->err, "reading records that take %llu bytes",
                          (unsigned long long)bytes);
    change->charged = bytes;
    return KILN_OK;
}

static enum kiln_code begin(struct tuning_change *change)
{
    struct deferred *d = change->request;
    if (!change->job)
        return change->kind->begin(change, d->engine->tuning->databases, &d->err);
    if (change->needs_no_caller)
        return KILN_OK;
    if (!d->caller)
        return d->err.code = KILN_CANCELLED;
    return charge_job(change);
}

static void begin_step(struct deferred *d)
{
    struct tuning_change *change = change_of(d);
    change->has_begun = true;
    change->more = change->stepping = change->taken = false;
    d->rc = begin(change);
    change->stepping = change->gives_up = d->rc && change->job;
}

static void work_step(struct deferred *d)
{
    struct tuning_change *change = change_of(d);
    if (change->stepping) { /* this step only continues follow_up() */
        if (change->taken)
            tuning_job_clear(change->job);
        if (change->gives_up)
            tuning_job_give_up(change->job);
    }
    if (change->stepping || d->rc)
        return;
    if (change->job)
        d->rc = tuning_job_work(change->job, &change->events, &d->err);
    if (!d->rc && change->kind->work)
        d->rc = change->kind->work(change, d->engine->tuning->databases, &d->err);
}

/* Sends progress, and applies a part of the job's changes. Returns true if more of this work on the
 * engine's thread is left. An additional step then continues it, so that other requests are served
 * in between. */
static bool follow_up(struct deferred *d)
{
    struct tuning_change *change = change_of(d);
    bool again = send_progress(change);
    change->stepping = true;
    if (!d->rc && change->job && !change->taken) {
        change->taken = tuning_job_take(d->engine->tuning->databases, change->job);
        again = true;
    }
    if (d->rc && change->job && !change->gives_up)
        again = change->gives_up = true; /* the next step frees the job's data */
    if (again)
        return true;
    bool job_has_more = !d->rc && change->job && tuning_job_has_more(change->job);
    change->more |= job_has_more;
    if (!job_has_more)
        drop_job(change);
    return false;
}

static void end_step(struct deferred *d)
{
    struct tuning_change *change = change_of(d);
    if (!d->rc && change->more && d->engine->draining)
        d->rc = kiln_fail(&d->err, KILN_UNAVAILABLE, TUNING_STOPPING);
    if (!d->rc && change->more) {
        /* Does not pass d->err, because the next step may set d->err if it begins and fails within
         * this call. */
        struct kiln_err err = KILN_ERR_INIT;
        if (deferred_enqueue(d, &d->engine->tuning->queue, d->step, &err) == KILN_OK)
            return;
        d->rc = err.code;
        d->err = err;
    }
    drop_job(change);
    change->kind->ended(change);
}

static const struct deferred_step step = { .work_queue = WORK_QUEUE_TUNING,
                                           .begin = begin_step,
                                           .work = work_step,
                                           .again = follow_up,
                                           .done = end_step };

enum kiln_code tuning_queue_add(struct tuning_change *change, struct kiln_err *err)
{
    struct deferred *d = change->request;
    enum kiln_code rc = tuning_ready(d->engine, err);
    d->part = change;
    return rc ? rc : deferred_enqueue(d, &d->engine->tuning->queue, &step, err);
}

bool tuning_queue_may_stop(const struct tuning_change *change)
{
    return deferred_is_waiting(change->request) && !change->has_begun;
}

void tuning_queue_drain(struct engine *e)
{
    for (struct deferred *d; (d = request_queue_pop(&e->tuning->queue));) {
        struct tuning_change *change = change_of(d);
        d->rc = kiln_fail(&d->err, KILN_UNAVAILABLE, TUNING_STOPPING);
        drop_job(change);
        change->kind->ended(change);
    }
}

void tuning_queue_tick(struct engine *e)
{
    const struct deferred *running = e->tuning->queue.running;
    if (running)
        (void)send_progress(change_of(running));
}
