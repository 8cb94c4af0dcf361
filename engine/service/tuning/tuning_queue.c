/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_queue.h"

#include <string.h>

/* Turns that wait: each is a request somebody wants answered within his time-out. */
#define WAITING_MOST 1024u
#define WAITING_MOST_UID 64u
/* Short turns that go before a step of a long one. */
#define SHORTS_MOST 32u

static struct tuning_change *change_of_task(struct task *task)
{
    return (struct tuning_change *)(void *)((char *)task - offsetof(struct tuning_change, task));
}

static void start_next(struct engine *e);
static void pause_turn(struct tuning_change *change);

enum kiln_code tuning_ready(const struct engine *e, struct kiln_err *err)
{
    if (e->draining)
        return kiln_fail(err, KILN_UNAVAILABLE, TUNING_STOPPING);
    if (!e->tuning)
        return kiln_fail(err, KILN_UNAVAILABLE, "there are no tuning databases now: %s",
                         e->tuning_trouble);
    return KILN_OK;
}

/* ---- one turn ---- */

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

static void end(struct tuning_change *change)
{
    change->engine->tuning_running = NULL;
    change->kind->ended(change);
}

static void work(struct task *task)
{
    struct tuning_change *change = change_of_task(task);
    if (change->stepping) { /* only to let others come in between */
        if (change->taken)
            tuning_job_clear(change->job);
        return;
    }
    if (change->job)
        change->rc = tuning_job_work(change->job, &change->events, &change->err);
    if (!change->rc && change->kind->work)
        change->rc = change->kind->work(change, change->engine->tuning, &change->err);
}

/* False: its next job could not be made. */
static bool begin(struct tuning_change *change)
{
    change->more = change->stepping = change->taken = false;
    change->rc = change->kind->begin(change, change->engine->tuning, &change->err);
    if (change->rc) {
        change->more = false;
        return false;
    }
    engine_run(change->engine, LANE_TUNING, &change->task);
    return true;
}

static void done(struct task *task)
{
    struct tuning_change *change = change_of_task(task);
    struct engine *e = change->engine;
    engine_task_ended(e);
    bool again = change->kind->tell && change->kind->tell(change);
    if (!change->rc && change->job && !change->taken) {
        change->taken = tuning_job_take(e->tuning, change->job);
        again = true; /* for the rest, or to clear away what was replaced */
    }
    if (again) {
        change->stepping = true;
        engine_run(e, LANE_TUNING, &change->task);
        return;
    }
    drop_job(change);
    if (!change->rc && change->more && e->draining)
        change->rc = kiln_fail(&change->err, KILN_UNAVAILABLE, TUNING_STOPPING);
    if (!change->rc && change->more)
        pause_turn(change);
    else
        end(change);
    start_next(e);
}

/* ---- all of them ---- */

static void pause_turn(struct tuning_change *change)
{
    change->engine->tuning_running = NULL;
    change->engine->tuning_paused = change;
}

/* The list is in order of rounds, so the first of either kind is the next. */
static struct tuning_change *take_first(struct engine *e, bool is_short)
{
    struct tuning_change **at = &e->tuning_queue;
    while (*at && (*at)->kind->is_short != is_short)
        at = &(*at)->next;
    struct tuning_change *change = *at;
    if (!change)
        return NULL;
    *at = change->next;
    e->tuning_rounds[is_short] = change->round;
    return change;
}

static struct tuning_change *take_long(struct engine *e)
{
    struct tuning_change *change = e->tuning_paused;
    e->tuning_paused = NULL;
    if (!change)
        change = take_first(e, /* is_short= */ false);
    if (change)
        e->tuning_shorts = 0;
    return change;
}

static struct tuning_change *take_next(struct engine *e)
{
    struct tuning_change *change = NULL;
    if (e->tuning_shorts >= SHORTS_MOST)
        change = take_long(e);
    if (!change) {
        change = take_first(e, /* is_short= */ true);
        e->tuning_shorts += change != NULL;
    }
    return change ? change : take_long(e);
}

static void start_next(struct engine *e)
{
    while (!e->tuning_running) {
        struct tuning_change *change = take_next(e);
        if (!change)
            return;
        e->tuning_running = change;
        if (!begin(change))
            end(change);
    }
}

static bool is_of_same(const struct tuning_change *other, const struct tuning_change *change)
{
    return other && other->uid == change->uid && other->kind->is_short == change->kind->is_short;
}

/* A user's second turn is behind the first of everybody else. */
static void insert(struct engine *e, struct tuning_change *change)
{
    change->round = e->tuning_rounds[change->kind->is_short];
    change->round += is_of_same(e->tuning_running, change) || is_of_same(e->tuning_paused, change);
    for (const struct tuning_change *t = e->tuning_queue; t; t = t->next) {
        if (is_of_same(t, change))
            change->round = t->round + 1;
    }
    struct tuning_change **at = &e->tuning_queue;
    while (*at &&
           ((*at)->kind->is_short != change->kind->is_short || (*at)->round <= change->round))
        at = &(*at)->next;
    change->next = *at;
    *at = change;
}

static enum kiln_code check_room(const struct engine *e, uid_t uid, struct kiln_err *err)
{
    unsigned all = 0, own = 0;
    for (const struct tuning_change *t = e->tuning_queue; t; t = t->next) {
        all++;
        own += t->uid == uid;
    }
    if (own >= WAITING_MOST_UID)
        return kiln_fail(err, KILN_BUSY,
                         "%u changes of tuning records of yours (uid %u) wait, as many as may: ask "
                         "again when some are done",
                         own, (unsigned)uid);
    if (all >= WAITING_MOST)
        return kiln_fail(err, KILN_BUSY,
                         "%u changes of tuning records wait, as many as may: ask again when some "
                         "are done",
                         all);
    return KILN_OK;
}

enum kiln_code tuning_queue_add(struct engine *e, uid_t uid, struct tuning_change *change,
                                struct kiln_err *err)
{
    enum kiln_code rc = tuning_ready(e, err);
    if (!rc)
        rc = check_room(e, uid, err);
    if (rc)
        return rc;
    change->engine = e;
    change->uid = uid;
    change->err = KILN_ERR_INIT;
    change->task = (struct task){ .work = work, .done = done };
    insert(e, change);
    start_next(e);
    return KILN_OK;
}

bool tuning_queue_withdraw(struct tuning_change *change)
{
    struct tuning_change **at = &change->engine->tuning_queue;
    while (*at && *at != change)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = change->next;
    return true;
}

static struct tuning_change *take_any(struct engine *e)
{
    struct tuning_change *change = e->tuning_queue;
    if (change) {
        e->tuning_queue = change->next;
        return change;
    }
    change = e->tuning_paused;
    e->tuning_paused = NULL;
    return change;
}

void tuning_queue_drain(struct engine *e)
{
    for (struct tuning_change *change = take_any(e); change; change = take_any(e)) {
        change->rc = kiln_fail(&change->err, KILN_UNAVAILABLE, TUNING_STOPPING);
        change->kind->ended(change);
    }
}

void tuning_queue_tick(struct engine *e)
{
    struct tuning_change *change = e->tuning_running;
    if (change && change->kind->tell)
        (void)change->kind->tell(change);
}
