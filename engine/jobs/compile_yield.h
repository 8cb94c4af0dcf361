/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rule by which a running compile gives its compiler to another user.
 *
 * Role       lets a user who holds no compiler get one soon, however long the others' compiles
 *            take. yield_choose returns the compile that must stop; compile_queue.c stops it
 * Threading  the engine's thread
 *
 * A compile gives way when all compilers are busy and a user who holds no compiler has waited for
 * YIELD_WAIT_NS. The running compile, too, must have run for YIELD_WAIT_NS. Whether it then gives
 * way depends on how many compilers there are, and how many of them the user of the running compile
 * holds:
 *
 *     compilers    held by the user    the compile gives way
 *     several      several             always
 *     several      one                 if its user has lately had more compiler time (struct
 *                                      yield_use) than the user who waits, by at least the lead;
 *                                      otherwise after it has run for YIELD_SHARE_NS
 *     one          one                 after it has run for YIELD_SHARE_NS
 *
 * The lead is YIELD_LEAD_NS.  It is zero if the user who waits wants a single compile, while the
 * user of the running compile has more compiles waiting.  The lead protects a user who seldom
 * compiles from users who compile endless sources.  YIELD_SHARE_NS protects a user who has compiled
 * much: without it, other users could keep all compilers until they had used as much time.
 *
 * If several compiles could give way, kiln stops one of the user who holds the most compilers, and
 * among that user's compiles the one that has run the longest.  The stopped compile starts again
 * later, from its beginning.  If there are several compilers, compiles that gave way never occupy
 * all of them (yield_may_start).
 *
 * A compile that gave way once can be stopped again when it has run for YIELD_SHARE_AGAIN_NS, under
 * the same conditions, but only if no other compile can be stopped.  It then does not start again.
 */
#include "engine/jobs/compile_queue.h"

/* How long a user must wait before a compile gives way to that user, and how long the compile must
 * have run. It is longer than an iteration of the event loop under load, and shorter than most
 * compiles. */
#define YIELD_WAIT_NS 500000000u
#define YIELD_LEAD_NS 3000000000u
/* How long a compile runs before it gives way, in the cases for which the table above names
 * YIELD_SHARE_NS. Nine of ten kernels take less time to compile. */
#define YIELD_SHARE_NS 10000000000u
#define YIELD_SHARE_AGAIN_NS 60000000000u

/* The maximum number of users in struct yield_use, which has the recent compiler time of each user.
 * That time decreases by one second every eight seconds (a leaky bucket). If there are more users,
 * those with the least time are forgotten. */
#define YIELD_USERS 64
struct yield_use {
    struct yield_user {
        uid_t uid;
        uint64_t used_ns, at_ns; /* |at_ns| is when |used_ns| was computed */
    } users[YIELD_USERS];
};
void yield_use_add(struct yield_use *use, uid_t uid, uint64_t took_ns, uint64_t now_ns);

struct yield_question {
    const struct compile_queue *queue;
    const struct list *running;
    const struct yield_use *use; /* without the time of the compiles that still run */
    unsigned compilers;
    uint64_t now_ns;
};

unsigned yield_count_of(const struct list *running, uid_t uid);
/* Returns whether a waiting order may start now. If there are several compilers, one is left for
 * orders that have not given way. */
bool yield_may_start(const struct yield_question *question, const struct compile_order *order);
/* Returns the running order that must stop so that |waiting| can start, or NULL. An abandoned order
 * is chosen first, and is the only choice if |waiting| is NULL. */
struct compile_order *yield_choose(const struct yield_question *question,
                                   const struct compile_order *waiting);
