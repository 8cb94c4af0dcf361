/* SPDX-License-Identifier: MIT */
#include "engine/jobs/compile_queue.h"

#include "common/base/clock.h"
#include "engine/jobs/compile_yield.h"

#define PRIORITIES 2

struct compile_queue {
    struct executor *executor;
    unsigned running_count;
    struct fair_queue_options limits;
    struct fair_queue waiting[PRIORITIES]; /* the queued items are compile_order.slot */
    struct list running;                   /* newest start first */
    struct yield_use use;
};

static struct compile_order *order_of(struct fair_item *item)
{
    return LIST_ENTRY(item, struct compile_order, slot);
}

enum kiln_code compile_queue_create(const struct compile_queue_options *options,
                                    struct compile_queue **ret_queue, struct kiln_err *err)
{
    const struct fair_queue_options unlimited = { .noun = "compiles" };
    struct compile_queue *q = calloc(1, sizeof(*q));
    if (!q)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the compile queue");
    q->executor = options->executor;
    q->limits.noun = unlimited.noun;
    compile_queue_set_limits(q, options->limit, options->limit_uid);
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
    q->limits.max = limit;
    q->limits.max_uid = limit_uid;
}

static unsigned count_compilers(const struct compile_queue *q)
{
    return q->executor->ops->compile_slots(q->executor);
}

static struct yield_question yield_now(const struct compile_queue *q)
{
    return (struct yield_question){ .queue = q,
                                    .running = &q->running,
                                    .use = &q->use,
                                    .compilers = count_compilers(q),
                                    .now_ns = clock_monotonic_ns() };
}

struct start { /* which waiting orders to consider */
    struct yield_question question;
    bool in_need; /* true: only orders of users who have no running compile */
    uint64_t wait_ns;
    /* True: only orders that gave way before and may not start yet. False: only orders that may
     * start. */
    bool is_blocked;
};

static bool may_start(void *context, const struct fair_item *item)
{
    const struct start *start = context;
    const struct yield_question *q = &start->question;
    const struct compile_order *order = LIST_ENTRY(item, struct compile_order, slot);
    if (start->in_need && (q->now_ns - order->queued_ns < start->wait_ns ||
                           yield_count_of(q->running, order->uid) > 0))
        return false;
    return yield_may_start(q, order) != start->is_blocked;
}

/* Takes the next order to start from the first priority that has one. If a user without a running
 * compile has waited for YIELD_WAIT_NS, that user's order goes first, because another compile may
 * have been stopped for it. */
static struct compile_order *take_next(struct compile_queue *q)
{
    struct start any = { .question = yield_now(q) };
    struct start need = { .question = any.question, .in_need = true, .wait_ns = YIELD_WAIT_NS };
    for (int i = 0; i < PRIORITIES; i++) {
        struct fair_item *next = fair_queue_peek_if(&q->waiting[i], may_start, &any);
        struct fair_item *urgent = fair_queue_peek_if(&q->waiting[i], may_start, &need);
        if (!next)
            continue;
        struct fair_item *item = urgent ? urgent : next;
        fair_queue_pop_before(&q->waiting[i], item, next);
        return order_of(item);
    }
    return NULL;
}

static void on_compiled(struct compile_task *task);

static void start_some(struct compile_queue *q)
{
    while (q->running_count < count_compilers(q)) {
        struct compile_order *order = take_next(q);
        if (!order)
            return;
        q->running_count++;
        list_prepend(&q->running, &order->running);
        order->task.done = on_compiled;
        order->started_ns = clock_monotonic_ns();
        order->is_stopping = false;
        order->has_delayed_others = false;
        q->executor->ops->compile(q->executor, &order->task);
    }
}

static void stop_order(struct compile_queue *q, struct compile_order *order)
{
    if (order->is_stopping || !q->executor->ops->compile_stop)
        return;
    order->is_stopping = true;
    q->executor->ops->compile_stop(q->executor, &order->task);
}

static bool one_is_stopping(const struct compile_queue *q)
{
    LIST_EACH (&q->running, const struct compile_order, running, order)
        if (order->is_stopping)
            return true;
    return false;
}

/* Returns the first waiting order that |need| accepts, or NULL. Does not consider prefetch orders
 * while interactive ones wait. */
static const struct compile_order *find_in_need(const struct compile_queue *q, struct start need)
{
    need.question = yield_now(q);
    need.in_need = true;
    for (int i = 0; i < PRIORITIES; i++) {
        struct fair_item *item = fair_queue_peek_if(&q->waiting[i], may_start, &need);
        if (item)
            return order_of(item);
        if (q->waiting[i].count > 0)
            return NULL;
    }
    return NULL;
}

static bool is_full(const struct compile_queue *q)
{
    return q->running_count >= count_compilers(q);
}

/* Returns the waiting order for which a running order should be stopped, or NULL. If a compiler is
 * free, every order that still waits has given way before and may not start yet
 * (yield_may_start). */
static const struct compile_order *find_hungry(const struct compile_queue *q)
{
    const struct start need = { .wait_ns = YIELD_WAIT_NS };
    const struct start blocked = { .wait_ns = YIELD_WAIT_NS, .is_blocked = true };
    const struct compile_order *order = is_full(q) ? find_in_need(q, need) : NULL;
    return order ? order : find_in_need(q, blocked);
}

/* Stops one running order if a waiting order needs its compiler. Does nothing while another order
 * is still stopping. An abandoned order is stopped for any waiting order, even of the same user. */
static void free_a_compiler(struct compile_queue *q)
{
    if (compile_queue_waiting(q) == 0 || one_is_stopping(q))
        return;
    const struct compile_order *order = find_hungry(q);
    if (!order && !is_full(q))
        return;
    struct yield_question question = yield_now(q);
    struct compile_order *chosen = yield_choose(&question, order);
    if (chosen)
        stop_order(q, chosen);
}

static void note_delays(struct compile_queue *q)
{
    if (!find_in_need(q, (struct start){ .wait_ns = 0 }))
        return;
    LIST_EACH (&q->running, struct compile_order, running, order)
        order->has_delayed_others = true;
}

void compile_queue_tick(struct compile_queue *q)
{
    uint64_t now_ns = clock_monotonic_ns();
    note_delays(q);
    LIST_EACH (&q->running, struct compile_order, running, order)
        if (order->is_abandoned && now_ns - order->started_ns >= YIELD_SHARE_NS)
            stop_order(q, order);
    free_a_compiler(q);
}

void compile_queue_set_abandoned(struct compile_queue *q, struct compile_order *order,
                                 bool is_abandoned)
{
    order->is_abandoned = is_abandoned;
    if (is_abandoned)
        free_a_compiler(q);
}

static bool starts_again(struct compile_queue *q, struct compile_order *order)
{
    struct kiln_err err = KILN_ERR_INIT;
    bool was_stopped = order->is_stopping && order->task.result.end == COMPILE_UNAVAILABLE;
    if (!was_stopped || order->is_abandoned || order->has_yielded)
        return false;
    if (fair_queue_push(&q->waiting[order->priority], order->uid, &order->slot, &err))
        return false;
    compile_result_done(&order->task.result);
    order->task.result = COMPILE_RESULT_INIT;
    order->has_yielded = order->slot.lets_pass = true;
    return true;
}

/* Turns a time-out into KILN_UNAVAILABLE if another user waited for a compiler meanwhile. The host
 * was busy then, and the time-out may be due to that, so it must not be stored as a failure of this
 * kernel. */
static void excuse_time_out(struct compile_order *order)
{
    struct compile_result *result = &order->task.result;
    if (result->end != COMPILE_TIMED_OUT || !order->has_delayed_others)
        return;
    result->end = COMPILE_UNAVAILABLE;
    result->err.code = KILN_UNAVAILABLE;
    kiln_while(&result->err, "other users needed compilers at the same time: try again");
}

static void on_compiled(struct compile_task *task)
{
    struct compile_order *order = (struct compile_order *)task;
    struct compile_queue *q = order->queue;
    uint64_t now_ns = clock_monotonic_ns(), took = now_ns - order->started_ns;
    q->running_count--;
    list_remove(&order->running);
    yield_use_add(&q->use, order->uid, took, now_ns);
    fair_queue_settle(&q->waiting[order->priority], order->uid, took);
    excuse_time_out(order);
    bool ends = !starts_again(q, order);
    start_some(q);
    if (ends)
        order->done(order);
}

enum kiln_code compile_queue_submit(struct compile_queue *q, struct compile_order *order,
                                    struct kiln_err *err)
{
    enum kiln_code rc = fair_queue_check(&q->limits, compile_queue_waiting(q), order->uid,
                                         compile_queue_waiting_of(q, order->uid), err);
    if (!rc)
        rc = fair_queue_push(&q->waiting[order->priority], order->uid, &order->slot, err);
    if (rc)
        return rc;
    order->queue = q;
    order->task.result = COMPILE_RESULT_INIT;
    order->queued_ns = clock_monotonic_ns();
    order->started_ns = 0;
    order->is_abandoned = order->has_yielded = order->slot.lets_pass = false;
    start_some(q);
    free_a_compiler(q);
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
        return; /* out of memory: the order keeps its place */
    order->priority = priority;
    order->uid = uid;
}

void compile_queue_share(struct compile_queue *q, struct compile_order *order, uid_t uid)
{
    if (!order->slot.user || order->uid == uid)
        return;
    unsigned own = fair_queue_count_of(&q->waiting[order->priority], uid);
    if (fair_queue_is_behind(&order->slot, own))
        move_order(order, order->priority, uid);
}

void compile_queue_promote(struct compile_queue *q, struct compile_order *order)
{
    (void)q;
    if (order->slot.user && order->priority != PRIORITY_INTERACTIVE)
        move_order(order, PRIORITY_INTERACTIVE, order->uid);
}

static struct compile_order *pop_any(struct compile_queue *q)
{
    struct fair_item *item = NULL;
    for (int i = 0; i < PRIORITIES && !item; i++)
        item = fair_queue_pop(&q->waiting[i]);
    return item ? order_of(item) : NULL;
}

void compile_queue_drain(struct compile_queue *q)
{
    for (int i = 0; i < PRIORITIES; i++)
        fair_queue_close(&q->waiting[i]);
    for (struct compile_order *order = pop_any(q); order; order = pop_any(q)) {
        order->task.result.end = COMPILE_UNAVAILABLE;
        kiln_fail(&order->task.result.err, KILN_UNAVAILABLE,
                  "kilnd is stopping: try again when it is back");
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

unsigned compile_queue_waiting_of(const struct compile_queue *q, uid_t uid)
{
    return fair_queue_count_of(&q->waiting[PRIORITY_INTERACTIVE], uid) +
           fair_queue_count_of(&q->waiting[PRIORITY_PREFETCH], uid);
}

unsigned compile_queue_ahead(const struct compile_queue *q, enum priority priority)
{
    return priority == PRIORITY_INTERACTIVE ? q->waiting[PRIORITY_INTERACTIVE].count
                                            : compile_queue_waiting(q);
}

unsigned compile_queue_ahead_of(const struct compile_queue *q, enum priority priority, uid_t uid)
{
    return priority == PRIORITY_INTERACTIVE
               ? fair_queue_count_of(&q->waiting[PRIORITY_INTERACTIVE], uid)
               : compile_queue_waiting_of(q, uid);
}

unsigned compile_queue_running(const struct compile_queue *q) { return q->running_count; }
