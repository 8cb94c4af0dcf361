/* SPDX-License-Identifier: MIT */
#include "engine/jobs/compile_yield.h"

#include "common/base/subordinate_uids.h"

unsigned yield_count_of(const struct list *running, uid_t uid)
{
    unsigned count = 0;
    LIST_EACH (running, const struct compile_order, running, order)
        count += is_one_user(order->uid, uid);
    return count;
}

bool yield_may_start(const struct yield_question *q, const struct compile_order *order)
{
    unsigned again = 1;
    if (!order->has_yielded || q->compilers < 2)
        return true;
    LIST_EACH (q->running, const struct compile_order, running, other)
        again += other->has_yielded;
    return again < q->compilers;
}

#define DRAIN_DIVISOR 8
#define USED_MAX_NS 120000000000u /* maximum of |used_ns|; drains to 0 in 16 minutes */

static uint64_t left_of(const struct yield_user *user, uint64_t now_ns)
{
    uint64_t drained = (now_ns - user->at_ns) / DRAIN_DIVISOR;
    return user->used_ns > drained ? user->used_ns - drained : 0;
}

static uint64_t used_by(const struct yield_use *use, uid_t uid, uint64_t now_ns)
{
    for (size_t i = 0; i < YIELD_USERS; i++) {
        if (is_one_user(use->users[i].uid, uid))
            return left_of(&use->users[i], now_ns);
    }
    return 0;
}

void yield_use_add(struct yield_use *use, uid_t uid, uint64_t took_ns, uint64_t now_ns)
{
    struct yield_user *chosen = &use->users[0];
    for (size_t i = 0; i < YIELD_USERS && !is_one_user(chosen->uid, uid); i++) {
        struct yield_user *user = &use->users[i];
        if (is_one_user(user->uid, uid) || left_of(user, now_ns) < left_of(chosen, now_ns))
            chosen = user;
    }
    uint64_t used_ns = took_ns + (is_one_user(chosen->uid, uid) ? left_of(chosen, now_ns) : 0);
    *chosen = (struct yield_user){ .uid = uid,
                                   .used_ns = used_ns < USED_MAX_NS ? used_ns : USED_MAX_NS,
                                   .at_ns = now_ns };
}

/* Returns the lead: how much more compiler time than |waiting| the user |user| must have used, so
 * that a compile of |user| gives way before it has run for YIELD_SHARE_NS. */
static uint64_t lead_of(const struct yield_question *q, uid_t user, uid_t waiting)
{
    bool is_single = compile_queue_waiting_of(q->queue, waiting) == 1 &&
                     compile_queue_waiting_of(q->queue, user) > 0;
    return is_single ? 0 : YIELD_LEAD_NS;
}

/* Returns for how many ns the order may run before it must give way to |uid|, or UINT64_MAX if it
 * never must give way. */
static uint64_t share_of(const struct yield_question *q, const struct compile_order *order,
                         unsigned held, uid_t uid)
{
    uint64_t ran_ns = q->now_ns - order->started_ns;
    bool leads = used_by(q->use, order->uid, q->now_ns) + ran_ns >=
                 used_by(q->use, uid, q->now_ns) + lead_of(q, order->uid, uid);
    bool is_in_share = q->compilers > 1 && held < 2 && !leads;
    if (order->has_yielded)
        return is_in_share ? UINT64_MAX : YIELD_SHARE_AGAIN_NS;
    return is_in_share || q->compilers == 1 ? YIELD_SHARE_NS : YIELD_WAIT_NS;
}

static struct compile_order *choose_among(const struct yield_question *q, bool has_yielded,
                                          uid_t uid)
{
    struct compile_order *chosen = NULL;
    unsigned most = 0;
    LIST_EACH (q->running, struct compile_order, running, order) {
        unsigned held = yield_count_of(q->running, order->uid);
        uint64_t ran_ns = q->now_ns - order->started_ns;
        if (is_one_user(order->uid, uid) || order->has_yielded != has_yielded ||
            ran_ns < share_of(q, order, held, uid) || held < most)
            continue;
        if (!chosen || held > most || order->started_ns < chosen->started_ns)
            chosen = order;
        most = held;
    }
    return chosen;
}

struct compile_order *yield_choose(const struct yield_question *q,
                                   const struct compile_order *waiting)
{
    LIST_EACH (q->running, struct compile_order, running, order)
        if (order->is_abandoned)
            return order;
    if (!waiting)
        return NULL;
    /* Orders that gave way must not occupy all compilers. So if |waiting| gave way before and may
     * not start for that reason, it needs the compiler of another order that gave way before. */
    bool needs_a_place = !yield_may_start(q, waiting);
    struct compile_order *chosen =
        needs_a_place ? NULL : choose_among(q, /* has_yielded= */ false, waiting->uid);
    return chosen ? chosen : choose_among(q, /* has_yielded= */ true, waiting->uid);
}
