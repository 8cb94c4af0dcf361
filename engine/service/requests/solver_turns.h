/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that walk tuning spaces: solutions and configs.
 *
 * Role       one of them is on LANE_READ at a time, so that look-ups of kernels always have the
 *            other readers; users take turns, so that nobody waits for all that another one asked
 * Ownership  a turn is part of a request and borrowed from solver_turn_add until solver_turn_ended,
 *            or until it is withdrawn
 * Threading  the engine's thread, but for the task's work
 */
#include "engine/service/internal.h"

struct solver_turn {
    struct task task; /* work and done are the request's */
    struct engine *engine;
    struct solver_turn *next;
    uid_t uid;
    uint64_t round; /* when its user's turn is */
};

/* |turn| has its task; that runs when its turn has come.  KILN_BUSY when too many wait, of |uid| or
 * in all. */
KILN_MUST_CHECK enum kiln_code solver_turn_add(struct engine *e, uid_t uid,
                                               struct solver_turn *turn, struct kiln_err *err);
/* The first thing in done. */
void solver_turn_ended(struct solver_turn *turn);
/* True: it had not begun, and is the caller's again. */
bool solver_turn_withdraw(struct solver_turn *turn);
