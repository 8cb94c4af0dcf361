/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/solver_turns.h"

/* Requests that wait: each is a client's call that has a time-out.  A user may have a process for
 * every GPU of a host, and each asks for one at a time. */
#define WAITING_MOST 1024u
#define WAITING_MOST_UID 256u

static void start_next(struct engine *e)
{
    struct solver_turn *turn = e->solver_turns;
    if (!turn || e->solver_running)
        return;
    e->solver_turns = turn->next;
    e->solver_running = turn;
    e->solver_round = turn->round;
    engine_run(e, LANE_READ, &turn->task);
}

/* The list is in order of rounds.  A user's second turn is behind the first of everybody else. */
static void insert(struct engine *e, struct solver_turn *turn)
{
    turn->round = e->solver_round + (e->solver_running && e->solver_running->uid == turn->uid);
    for (const struct solver_turn *t = e->solver_turns; t; t = t->next) {
        if (t->uid == turn->uid)
            turn->round = t->round + 1;
    }
    struct solver_turn **at = &e->solver_turns;
    while (*at && (*at)->round <= turn->round)
        at = &(*at)->next;
    turn->next = *at;
    *at = turn;
}

static enum kiln_code check_room(const struct engine *e, uid_t uid, struct kiln_err *err)
{
    unsigned all = 0, own = 0;
    for (const struct solver_turn *t = e->solver_turns; t; t = t->next) {
        all++;
        own += t->uid == uid;
    }
    if (own >= WAITING_MOST_UID)
        return kiln_fail(err, KILN_BUSY,
                         "%u questions about solvers and their configs by user %u wait, as many as "
                         "may: ask again when some are answered",
                         own, (unsigned)uid);
    if (all >= WAITING_MOST)
        return kiln_fail(err, KILN_BUSY,
                         "%u questions about solvers and their configs wait, as many as may: ask "
                         "again when some are answered",
                         all);
    return KILN_OK;
}

enum kiln_code solver_turn_add(struct engine *e, uid_t uid, struct solver_turn *turn,
                               struct kiln_err *err)
{
    enum kiln_code rc = check_room(e, uid, err);
    if (rc)
        return rc;
    turn->engine = e;
    turn->uid = uid;
    insert(e, turn);
    start_next(e);
    return KILN_OK;
}

void solver_turn_ended(struct solver_turn *turn)
{
    struct engine *e = turn->engine;
    engine_task_ended(e);
    e->solver_running = NULL;
    start_next(e);
}

bool solver_turn_withdraw(struct solver_turn *turn)
{
    struct solver_turn **at = &turn->engine->solver_turns;
    while (*at && *at != turn)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = turn->next;
    return true;
}
