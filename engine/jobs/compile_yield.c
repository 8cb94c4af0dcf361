/* SPDX-License-Identifier: MIT */
#include "engine/jobs/compile_yield.h"

unsigned yield_count_of(const struct list *running, uid_t uid)
{
    unsigned count = 0;
    LIST_EACH (running, const struct compile_order, running, order)
        count += order->uid == uid;
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

/* UINT64_MAX: the order need not give way. */
static uint64_t share_of(const struct yield_question *q, const struct compile_order *order,
                         unsigned held)
{
    if (order->is_abandoned)
        return 0;
    if (order->has_yielded)
        return q->compilers > 1 ? UINT64_MAX : YIELD_SHARE_AGAIN_NS;
    return held > 1 ? YIELD_WAIT_NS : YIELD_SHARE_NS;
}

struct compile_order *yield_choose(const struct yield_question *q, uid_t uid)
{
    struct compile_order *chosen = NULL;
    unsigned most = 0;
    LIST_EACH (q->running, struct compile_order, running, order) {
        unsigned held = yield_count_of(q->running, order->uid);
        uint64_t ran_ns = q->now_ns - order->started_ns;
        if (order->is_abandoned)
            return order;
        if (order->uid == uid || ran_ns < share_of(q, order, held) || held < most)
            continue;
        if (!chosen || held > most || order->started_ns < chosen->started_ns)
            chosen = order;
        most = held;
    }
    return chosen;
}
