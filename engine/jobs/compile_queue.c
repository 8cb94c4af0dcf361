/* SPDX-License-Identifier: MIT */
#include "engine/jobs/compile_queue.h"

#include "common/clock.h"

#include <limits.h>

#define PRIORITIES 2

struct compile_queue {
    struct executor *executor; /* borrowed */
    unsigned limit;            /* of both queues together, like the next */
    unsigned limit_uid;
    unsigned running_count;
    struct fair_queue waiting[PRIORITIES]; /* of compile_order.slot */
    struct list running;                   /* of struct compile_order, the latest first */
};

static struct compile_order *order_of(struct fair_item *item)
{
    return LIST_ENTRY(item, struct compile_order, slot);
}

enum kiln_code compile_queue_create(const struct compile_queue_options *options,
                                    struct compile_queue **ret_queue, struct kiln_err *err)
{
    const struct fair_queue_options unlimited = { .max = UINT_MAX,
                                                  .max_uid = UINT_MAX,
                                                  .noun = "compiles" };
    struct compile_queue *q = calloc(1, sizeof(*q));
    if (!q)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the compile queue");
    q->executor = options->executor;
    q->limit = options->limit;
    q->limit_uid = options->limit_uid;
    list_init(&q->running);
    for (int i = 0; i < PRIORITIES; i++)
        fair_queue_init(&q->waiting[i], &unlimited);
    *ret_queue = q;
    return KILN_OK;
}

void compile_queue_destroy(struct compile_queue *q)
{
    for (int i = 0; q && i < PRIORITIES; i++)
        fair_queue_done(&q->waiting[i]);
    free(q);
}

void compile_queue_set_limits(struct compile_queue *q, unsigned limit, unsigned limit_uid)
{
    q->limit = limit;
    q->limit_uid = limit_uid;
}

static struct compile_order *take_next(struct compile_queue *q)
{
    struct fair_item *item = NULL;
    for (int i = 0; i < PRIORITIES && !item; i++)
        item = fair_queue_pop(&q->waiting[i]);
    return item ? order_of(item) : NULL;
}

static void on_compiled(struct compile_task *task);

static void start_some(struct compile_queue *q)
{
    while (q->running_count < q->executor->ops->compile_slots(q->executor)) {
        struct compile_order *order = take_next(q);
        if (!order)
            return;
        q->running_count++;
        list_prepend(&q->running, &order->running);
        order->task.done = on_compiled;
        order->started_ns = clock_monotonic_ns();
        q->executor->ops->compile(q->executor, &order->task);
    }
}

static void on_compiled(struct compile_task *task)
{
    struct compile_order *order = (struct compile_order *)task; /* first member */
    struct compile_queue *q = order->queue;
    uint64_t took = clock_monotonic_ns() - order->started_ns;
    q->running_count--;
    list_remove(&order->running);
    if (took > FAIR_QUEUE_UNIT) /* that much was charged when it was popped */
        fair_queue_charge(&q->waiting[order->priority], order->uid, took - FAIR_QUEUE_UNIT);
    start_some(q);
    order->done(order);
}

static unsigned count_of_user(const struct compile_queue *q, uid_t uid)
{
    return fair_queue_count_of(&q->waiting[PRIORITY_INTERACTIVE], uid) +
           fair_queue_count_of(&q->waiting[PRIORITY_PREFETCH], uid);
}

/* Of both priorities together. */
static enum kiln_code check_limits(const struct compile_queue *q, uid_t uid, struct kiln_err *err)
{
    unsigned waiting = compile_queue_waiting(q);
    if (waiting >= q->limit)
        return kiln_fail(err, KILN_BUSY, "%u compiles wait already, the maximum", q->limit);
    if (waiting >= q->limit_uid && count_of_user(q, uid) >= q->limit_uid)
        return kiln_fail(err, KILN_BUSY,
                         "%u compiles of user %u wait already, the maximum of one user",
                         q->limit_uid, (unsigned)uid);
    return KILN_OK;
}

enum kiln_code compile_queue_submit(struct compile_queue *q, struct compile_order *order,
                                    struct kiln_err *err)
{
    enum kiln_code rc = check_limits(q, order->uid, err);
    if (!rc)
        rc = fair_queue_push(&q->waiting[order->priority], order->uid, &order->slot, err);
    if (rc)
        return rc;
    order->queue = q;
    order->task.result = COMPILE_RESULT_INIT;
    order->queued_ns = clock_monotonic_ns();
    order->started_ns = 0;
    start_some(q);
    return KILN_OK;
}

bool compile_queue_cancel(struct compile_queue *q, struct compile_order *order)
{
    return fair_queue_remove(&q->waiting[order->priority], &order->slot);
}

static void move_order(struct compile_order *order, enum priority priority, uid_t uid)
{
    struct compile_queue *q = order->queue;
    if (!fair_queue_move(&q->waiting[order->priority], &order->slot, &q->waiting[priority], uid))
        return; /* no memory: it keeps its place */
    order->priority = priority;
    order->uid = uid;
}

void compile_queue_share(struct compile_queue *q, struct compile_order *order, uid_t uid)
{
    if (!order->slot.user || order->uid == uid)
        return;
    unsigned place = fair_queue_place_of(&order->slot);
    if (fair_queue_count_of(&q->waiting[order->priority], uid) < place)
        move_order(order, order->priority, uid);
}

void compile_queue_promote(struct compile_queue *q, struct compile_order *order)
{
    (void)q;
    if (order->slot.user && order->priority != PRIORITY_INTERACTIVE)
        move_order(order, PRIORITY_INTERACTIVE, order->uid);
}

void compile_queue_drain(struct compile_queue *q)
{
    for (int i = 0; i < PRIORITIES; i++)
        fair_queue_close(&q->waiting[i]);
    for (struct compile_order *order = take_next(q); order; order = take_next(q)) {
        order->task.result.end = COMPILE_UNAVAILABLE;
        kiln_fail(&order->task.result.err, KILN_UNAVAILABLE,
                  "kilnd is stopping: ask again when it is back");
        order->done(order);
    }
}

void compile_queue_each_running(const struct compile_queue *q,
                                void (*visit)(void *context, const struct compile_order *order),
                                void *context)
{
    LIST_EACH (&q->running, struct compile_order, running, order)
        visit(context, order);
}

struct user_visit {
    void (*visit)(void *context, uid_t uid, enum priority priority, unsigned waiting);
    void *context;
    enum priority priority;
};

static void visit_user(void *context, uid_t uid, unsigned waiting)
{
    const struct user_visit *v = context;
    v->visit(v->context, uid, v->priority, waiting);
}

void compile_queue_each_user(const struct compile_queue *q,
                             void (*visit)(void *context, uid_t uid, enum priority priority,
                                           unsigned waiting),
                             void *context)
{
    for (int i = 0; i < PRIORITIES; i++) {
        struct user_visit v = { visit, context, (enum priority)i };
        fair_queue_each_user(&q->waiting[i], visit_user, &v);
    }
}

unsigned compile_queue_waiting(const struct compile_queue *q)
{
    return q->waiting[PRIORITY_INTERACTIVE].count + q->waiting[PRIORITY_PREFETCH].count;
}

unsigned compile_queue_running(const struct compile_queue *q) { return q->running_count; }
