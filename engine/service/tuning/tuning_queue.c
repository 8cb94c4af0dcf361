/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_queue.h"

#include <string.h>

/* Turns that wait: each is a request somebody wants answered within his time-out. */
#define WAITING_MOST 1024u
#define WAITING_MOST_UID 64u
/* Short turns that go before a step of a long one. */
#define SHORTS_MOST 32u

static struct tuning_turn *turn_of_task(struct task *task)
{
    return (struct tuning_turn *)(void *)((char *)task - offsetof(struct tuning_turn, task));
}

static void start_next(struct engine *e);
static void pause_turn(struct tuning_turn *turn);

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

static void drop_job(struct tuning_turn *turn)
{
    if (turn->job)
        add_counts(&turn->counts, tuning_job_counts(turn->job));
    tuning_job_destroy(turn->job);
    turn->job = NULL;
}

static void end(struct tuning_turn *turn)
{
    turn->engine->tuning_running = NULL;
    turn->kind->ended(turn);
}

static void work(struct task *task)
{
    struct tuning_turn *turn = turn_of_task(task);
    if (turn->stepping) { /* only to let others come in between */
        if (turn->taken)
            tuning_job_clear(turn->job);
        return;
    }
    if (turn->job)
        turn->rc = tuning_job_work(turn->job, &turn->events, &turn->err);
    if (!turn->rc && turn->kind->work)
        turn->rc = turn->kind->work(turn, turn->engine->tuning, &turn->err);
}

/* False: its next job could not be made. */
static bool begin(struct tuning_turn *turn)
{
    turn->more = turn->stepping = turn->taken = false;
    turn->rc = turn->kind->begin(turn, turn->engine->tuning, &turn->err);
    if (turn->rc) {
        turn->more = false;
        return false;
    }
    engine_run(turn->engine, LANE_TUNING, &turn->task);
    return true;
}

static void done(struct task *task)
{
    struct tuning_turn *turn = turn_of_task(task);
    struct engine *e = turn->engine;
    engine_task_ended(e);
    bool again = turn->kind->tell && turn->kind->tell(turn);
    if (!turn->rc && turn->job && !turn->taken) {
        turn->taken = tuning_job_take(e->tuning, turn->job);
        again = true; /* for the rest, or to clear away what was replaced */
    }
    if (again) {
        turn->stepping = true;
        engine_run(e, LANE_TUNING, &turn->task);
        return;
    }
    drop_job(turn);
    if (!turn->rc && turn->more && e->draining)
        turn->rc = kiln_fail(&turn->err, KILN_UNAVAILABLE, TUNING_STOPPING);
    if (!turn->rc && turn->more)
        pause_turn(turn);
    else
        end(turn);
    start_next(e);
}

/* ---- all of them ---- */

static void pause_turn(struct tuning_turn *turn)
{
    turn->engine->tuning_running = NULL;
    turn->engine->tuning_paused = turn;
}

/* The list is in order of rounds, so the first of either kind is the next. */
static struct tuning_turn *take_first(struct engine *e, bool is_short)
{
    struct tuning_turn **at = &e->tuning_turns;
    while (*at && (*at)->kind->is_short != is_short)
        at = &(*at)->next;
    struct tuning_turn *turn = *at;
    if (!turn)
        return NULL;
    *at = turn->next;
    e->tuning_rounds[is_short] = turn->round;
    return turn;
}

static struct tuning_turn *take_long(struct engine *e)
{
    struct tuning_turn *turn = e->tuning_paused;
    e->tuning_paused = NULL;
    if (!turn)
        turn = take_first(e, /* is_short= */ false);
    if (turn)
        e->tuning_shorts = 0;
    return turn;
}

static struct tuning_turn *take_next(struct engine *e)
{
    struct tuning_turn *turn = NULL;
    if (e->tuning_shorts >= SHORTS_MOST)
        turn = take_long(e);
    if (!turn) {
        turn = take_first(e, /* is_short= */ true);
        e->tuning_shorts += turn != NULL;
    }
    return turn ? turn : take_long(e);
}

static void start_next(struct engine *e)
{
    while (!e->tuning_running) {
        struct tuning_turn *turn = take_next(e);
        if (!turn)
            return;
        e->tuning_running = turn;
        if (!begin(turn))
            end(turn);
    }
}

static bool is_of_same(const struct tuning_turn *other, const struct tuning_turn *turn)
{
    return other && other->uid == turn->uid && other->kind->is_short == turn->kind->is_short;
}

/* A user's second turn is behind the first of everybody else. */
static void insert(struct engine *e, struct tuning_turn *turn)
{
    turn->round = e->tuning_rounds[turn->kind->is_short];
    turn->round += is_of_same(e->tuning_running, turn) || is_of_same(e->tuning_paused, turn);
    for (const struct tuning_turn *t = e->tuning_turns; t; t = t->next) {
        if (is_of_same(t, turn))
            turn->round = t->round + 1;
    }
    struct tuning_turn **at = &e->tuning_turns;
    while (*at && ((*at)->kind->is_short != turn->kind->is_short || (*at)->round <= turn->round))
        at = &(*at)->next;
    turn->next = *at;
    *at = turn;
}

static enum kiln_code check_room(const struct engine *e, uid_t uid, struct kiln_err *err)
{
    unsigned all = 0, own = 0;
    for (const struct tuning_turn *t = e->tuning_turns; t; t = t->next) {
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

enum kiln_code tuning_queue_add(struct engine *e, uid_t uid, struct tuning_turn *turn,
                                struct kiln_err *err)
{
    enum kiln_code rc = tuning_ready(e, err);
    if (!rc)
        rc = check_room(e, uid, err);
    if (rc)
        return rc;
    turn->engine = e;
    turn->uid = uid;
    turn->err = KILN_ERR_INIT;
    turn->task = (struct task){ .work = work, .done = done };
    insert(e, turn);
    start_next(e);
    return KILN_OK;
}

bool tuning_queue_withdraw(struct tuning_turn *turn)
{
    struct tuning_turn **at = &turn->engine->tuning_turns;
    while (*at && *at != turn)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = turn->next;
    return true;
}

static struct tuning_turn *take_any(struct engine *e)
{
    struct tuning_turn *turn = e->tuning_turns;
    if (turn) {
        e->tuning_turns = turn->next;
        return turn;
    }
    turn = e->tuning_paused;
    e->tuning_paused = NULL;
    return turn;
}

void tuning_queue_drain(struct engine *e)
{
    for (struct tuning_turn *turn = take_any(e); turn; turn = take_any(e)) {
        turn->rc = kiln_fail(&turn->err, KILN_UNAVAILABLE, TUNING_STOPPING);
        turn->kind->ended(turn);
    }
}

void tuning_queue_tick(struct engine *e)
{
    struct tuning_turn *turn = e->tuning_running;
    if (turn && turn->kind->tell)
        (void)turn->kind->tell(turn);
}
