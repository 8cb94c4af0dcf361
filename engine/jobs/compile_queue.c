/* SPDX-License-Identifier: MIT */
#include "engine/jobs/compile_queue.h"

#include "common/clock.h"

#define PRIORITIES 2

/* One user's waiting orders of one priority; turns with orders form a ring. */
struct turn {
    struct turn *next, *previous;
    struct compile_order *first, *last;
    unsigned count;
    uint64_t next_serial;
    uid_t uid;
    enum priority priority;
};

struct compile_queue {
    struct executor *executor; /* borrowed */
    unsigned limit;
    unsigned limit_uid;
    unsigned waiting;
    unsigned running;
    bool draining;
    struct turn *next_turn[PRIORITIES];  /* owned rings; NULL when empty */
    struct compile_order *first_running; /* borrowed list */
};

enum kiln_code compile_queue_create(const struct compile_queue_options *options,
                                    struct compile_queue **ret_queue, struct kiln_err *err)
{
    struct compile_queue *q = calloc(1, sizeof(*q));
    if (!q)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the compile queue");
    q->executor = options->executor;
    q->limit = options->limit;
    q->limit_uid = options->limit_uid;
    *ret_queue = q;
    return KILN_OK;
}

void compile_queue_destroy(struct compile_queue *q) { free(q); }

void compile_queue_set_limits(struct compile_queue *q, unsigned limit, unsigned limit_uid)
{
    q->limit = limit;
    q->limit_uid = limit_uid;
}

static struct turn *find_turn(struct compile_queue *q, enum priority priority, uid_t uid)
{
    struct turn *start = q->next_turn[priority];
    struct turn *t = start;
    do {
        if (t && t->uid == uid)
            return t;
        t = t ? t->next : NULL;
    } while (t != start);
    return NULL;
}

/* Newcomers go to the end of the round. */
static struct turn *add_turn(struct compile_queue *q, enum priority priority, uid_t uid)
{
    struct turn *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->uid = uid;
    t->priority = priority;
    struct turn *head = q->next_turn[priority];
    if (!head) {
        t->next = t->previous = t;
        q->next_turn[priority] = t;
        return t;
    }
    t->next = head;
    t->previous = head->previous;
    t->previous->next = t;
    head->previous = t;
    return t;
}

static void drop_turn(struct compile_queue *q, struct turn *t)
{
    if (q->next_turn[t->priority] == t)
        q->next_turn[t->priority] = t->next == t ? NULL : t->next;
    t->next->previous = t->previous;
    t->previous->next = t->next;
    free(t);
}

static struct turn *turn_for(struct compile_queue *q, enum priority priority, uid_t uid)
{
    struct turn *t = find_turn(q, priority, uid);
    return t ? t : add_turn(q, priority, uid);
}

static void append(struct compile_queue *q, struct turn *t, struct compile_order *order)
{
    order->turn = t;
    order->serial = t->next_serial++;
    order->next = NULL;
    order->previous = t->last;
    if (t->last)
        t->last->next = order;
    else
        t->first = order;
    t->last = order;
    t->count++;
    q->waiting++;
}

static void detach(struct compile_queue *q, struct compile_order *order)
{
    struct turn *t = order->turn;
    *(order->previous ? &order->previous->next : &t->first) = order->next;
    *(order->next ? &order->next->previous : &t->last) = order->previous;
    order->turn = NULL;
    order->next = order->previous = NULL;
    t->count--;
    q->waiting--;
    if (!t->first)
        drop_turn(q, t);
}

static struct compile_order *take_next(struct compile_queue *q)
{
    for (int priority = 0; priority < PRIORITIES; priority++) {
        struct turn *t = q->next_turn[priority];
        if (!t)
            continue;
        q->next_turn[priority] = t->next;
        struct compile_order *order = t->first;
        detach(q, order);
        return order;
    }
    return NULL;
}

static void begin_running(struct compile_queue *q, struct compile_order *order)
{
    q->running++;
    order->next = q->first_running;
    if (order->next)
        order->next->previous = order;
    q->first_running = order;
}

static void end_running(struct compile_queue *q, struct compile_order *order)
{
    q->running--;
    *(order->previous ? &order->previous->next : &q->first_running) = order->next;
    if (order->next)
        order->next->previous = order->previous;
    order->next = order->previous = NULL;
}

static void on_compiled(struct compile_task *task);

static void start_some(struct compile_queue *q)
{
    while (q->waiting && q->running < q->executor->ops->compile_slots(q->executor)) {
        struct compile_order *order = take_next(q);
        begin_running(q, order);
        order->task.done = on_compiled;
        order->started_ns = clock_monotonic_ns();
        q->executor->ops->compile(q->executor, &order->task);
    }
}

static void on_compiled(struct compile_task *task)
{
    struct compile_order *order = (struct compile_order *)task; /* first member */
    struct compile_queue *q = order->queue;
    end_running(q, order);
    start_some(q);
    order->done(order);
}

static unsigned waiting_of(struct compile_queue *q, uid_t uid)
{
    unsigned count = 0;
    for (int priority = 0; priority < PRIORITIES; priority++) {
        struct turn *t = find_turn(q, (enum priority)priority, uid);
        count += t ? t->count : 0;
    }
    return count;
}

enum kiln_code compile_queue_submit(struct compile_queue *q, struct compile_order *order,
                                    struct kiln_err *err)
{
    if (q->draining)
        return kiln_fail(err, KILN_UNAVAILABLE, "kilnd is stopping: ask again when it is back");
    if (q->waiting >= q->limit)
        return kiln_fail(err, KILN_BUSY, "%u compiles wait already, the most that may", q->limit);
    if (q->waiting >= q->limit_uid && waiting_of(q, order->uid) >= q->limit_uid)
        return kiln_fail(err, KILN_BUSY, "%u compiles of user %u wait already, the most that may",
                         q->limit_uid, (unsigned)order->uid);
    struct turn *t = turn_for(q, order->priority, order->uid);
    if (!t)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot queue a compile");
    order->queue = q;
    order->task.outcome = COMPILE_OUTCOME_INIT;
    order->queued_ns = clock_monotonic_ns();
    order->started_ns = 0;
    append(q, t, order);
    start_some(q);
    return KILN_OK;
}

bool compile_queue_cancel(struct compile_queue *q, struct compile_order *order)
{
    if (!order->turn)
        return false;
    detach(q, order);
    return true;
}

static void move(struct compile_queue *q, struct compile_order *order, enum priority priority,
                 uid_t uid)
{
    struct turn *to = turn_for(q, priority, uid);
    if (!to)
        return; /* out of memory: it keeps its place */
    detach(q, order);
    order->priority = priority;
    order->uid = uid;
    append(q, to, order);
}

/* How many of the same turn come before it; more when some of them were cancelled. */
static uint64_t place_of(const struct compile_order *order)
{
    return order->serial - order->turn->first->serial;
}

void compile_queue_share(struct compile_queue *q, struct compile_order *order, uid_t uid)
{
    if (!order->turn || order->uid == uid)
        return;
    struct turn *t = find_turn(q, order->priority, uid);
    if ((t ? t->count : 0) < place_of(order))
        move(q, order, order->priority, uid);
}

void compile_queue_promote(struct compile_queue *q, struct compile_order *order)
{
    if (!order->turn || order->priority == PRIORITY_INTERACTIVE)
        return;
    move(q, order, PRIORITY_INTERACTIVE, order->uid);
}

void compile_queue_drain(struct compile_queue *q)
{
    q->draining = true;
    for (struct compile_order *order = take_next(q); order; order = take_next(q)) {
        order->task.outcome.end = COMPILE_UNAVAILABLE;
        kiln_fail(&order->task.outcome.err, KILN_UNAVAILABLE,
                  "kilnd is stopping: ask again when it is back");
        order->done(order);
    }
}

void compile_queue_each_running(const struct compile_queue *q,
                                void (*visit)(void *context, const struct compile_order *order),
                                void *context)
{
    for (const struct compile_order *order = q->first_running; order; order = order->next)
        visit(context, order);
}

void compile_queue_each_turn(const struct compile_queue *q,
                             void (*visit)(void *context, uid_t uid, enum priority priority,
                                           unsigned waiting),
                             void *context)
{
    for (int priority = 0; priority < PRIORITIES; priority++) {
        const struct turn *t = q->next_turn[priority];
        for (bool more = t != NULL; more; t = t->next, more = t != q->next_turn[priority])
            visit(context, t->uid, t->priority, t->count);
    }
}

unsigned compile_queue_waiting(const struct compile_queue *q) { return q->waiting; }
unsigned compile_queue_running(const struct compile_queue *q) { return q->running; }
