/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rule by which a running compile gives its compiler to another user.
 *
 * Role       a user who holds no compiler gets one soon, however long the others' compiles take.
 *            The choice is a pure function; compile_queue.c carries it out
 * Threading  the engine's thread
 *
 * A compile gives way when all compilers are busy and a user who holds none has waited for one for
 * YIELD_WAIT_NS.  The compile must have run for as long itself, and:
 *
 *     its user holds                      it gives way
 *     several compilers                   always
 *     one of several                      if the user has had YIELD_LEAD_NS more compiler time
 *                                         lately (struct yield_use) than the user who waits
 *     the only one                        after YIELD_SHARE_NS
 *
 * The lead keeps users who compile endless sources from stopping the compiles of a user who
 * seldom compiles, and from holding up that user again and again.
 *
 * Of these, a compile of the user who holds the most compilers gives way, and of that user's the
 * one that has run the longest.  It starts again later, from its beginning.  Compiles that gave way
 * never occupy all of several compilers (yield_may_start), so the remaining one falls to a user who
 * holds none.
 *
 * A compile that gave way does so again after YIELD_SHARE_AGAIN_NS, under the same conditions, but
 * only if no other compile can; it then ends.  So compiles without an end keep no slow compile that
 * gave way from starting again for longer than that, either.
 */
#include "engine/jobs/compile_queue.h"

/* Longer than a loop iteration under load, and shorter than most compiles. */
#define YIELD_WAIT_NS 500000000u
#define YIELD_LEAD_NS 3000000000u
/* Nine of ten kernels compile in less time. */
#define YIELD_SHARE_NS 10000000000u
#define YIELD_SHARE_AGAIN_NS 60000000000u

/* The compiler time of each user, as a leaky bucket. It drains by one second in eight, so a user
 * who keeps one compiler busy for less than an eighth of the time counts as having used none. If
 * more than YIELD_USERS have used some, those who used the least are forgotten. */
#define YIELD_USERS 64
struct yield_use {
    struct yield_user {
        uid_t uid;
        uint64_t used_ns, at_ns; /* used_ns was right at at_ns */
    } users[YIELD_USERS];
};
void yield_use_add(struct yield_use *use, uid_t uid, uint64_t took_ns, uint64_t now_ns);

struct yield_question {
    const struct list *running;  /* of struct compile_order.running */
    const struct yield_use *use; /* without the running compiles */
    unsigned compilers;
    uint64_t now_ns;
};

/* How many of the running orders are |uid|'s. */
unsigned yield_count_of(const struct list *running, uid_t uid);
/* False: |order| gave way before, and would occupy the last compiler for others. */
bool yield_may_start(const struct yield_question *question, const struct compile_order *order);
/* The running order that gives way to |waiting|; NULL: none has to. An order that nobody waits for
 * gives way first, at any time, also if |waiting| is NULL. */
struct compile_order *yield_choose(const struct yield_question *question,
                                   const struct compile_order *waiting);
