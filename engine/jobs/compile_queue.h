/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The queue of compiles that wait for a compiler.
 *
 * Role       interactive orders go before prefetch orders.  Each priority has a fair_queue: the
 *            user who has used the least compile time is served next, and each user's orders run in
 *            the order of submission.  Keeps as many orders running as the executor has compile
 *            slots.  Stops running orders that must give way to another user (compile_yield.h) or
 *            that nobody waits for
 * Ownership  borrows an order until its done callback has run or compile_queue_cancel returned true
 * Threading  the engine's thread
 */
#include "common/base/cleanup.h"
#include "common/protocol/messages.h"
#include "engine/jobs/executor.h"
#include "engine/jobs/fair_queue.h"

#include <sys/types.h>

struct compile_queue;

struct compile_order {        /* embed it; the caller fills the first part */
    struct compile_task task; /* the caller fills the job, the executor fills the result */
    uid_t uid;
    enum priority priority;
    /* Called once, on the engine's thread, never from within submit. The order then belongs to the
     * caller again. */
    void (*done)(struct compile_order *order);
    /* The fields below belong to the queue. */
    struct compile_queue *queue;
    struct fair_item slot;    /* used while the order waits */
    struct list_link running; /* in the list of running orders */
    bool is_abandoned;        /* nobody waits for its result */
    bool is_stopping;         /* it is running, and the executor was asked to stop it */
    bool has_yielded;         /* it gave its compiler to another user, and starts again */
    bool has_delayed_others;  /* while it ran, another user waited for a compiler */
    /* When the order was submitted, and when it was handed to the executor; 0: not yet. */
    uint64_t queued_ns, started_ns;
};

struct compile_queue_options {
    struct executor *executor; /* borrowed */
    unsigned limit;            /* maximum number of waiting orders of all users */
    unsigned limit_uid;        /* maximum number of waiting orders of one user */
};

KILN_MUST_CHECK enum kiln_code compile_queue_create(const struct compile_queue_options *options,
                                                    struct compile_queue **ret_queue,
                                                    struct kiln_err *err);
/* The queue must have no waiting and no running order. */
void compile_queue_destroy(struct compile_queue *queue);
KILN_DEFINE_AUTO(compile_queue)

/* Changes the limits. Orders that already wait stay in the queue even if they exceed the new
 * limits. */
void compile_queue_set_limits(struct compile_queue *queue, unsigned limit, unsigned limit_uid);
/* Adds an order. Returns KILN_BUSY if too many orders wait; the message says whether the limit of
 * one user or of all users was reached. Returns KILN_UNAVAILABLE after compile_queue_drain. */
KILN_MUST_CHECK enum kiln_code compile_queue_submit(struct compile_queue *queue,
                                                    struct compile_order *order,
                                                    struct kiln_err *err);
/* Removes a waiting order and returns true; |done| will not be called. Returns false if the order
 * is running; |done| will be called. */
bool compile_queue_cancel(struct compile_queue *queue, struct compile_order *order);
/* Tells the queue whether anybody still waits for the order's result. A running order whose result
 * nobody wants is stopped as soon as another one needs its compiler, or after YIELD_SHARE_NS. */
void compile_queue_set_abandoned(struct compile_queue *queue, struct compile_order *order,
                                 bool is_abandoned);
/* Stops running orders that have to give way. Call it once a second, and more often while orders
 * wait. */
void compile_queue_tick(struct compile_queue *queue);
/* Makes a waiting prefetch order interactive, because a request now waits for it. */
void compile_queue_promote(struct compile_queue *queue, struct compile_order *order);
/* Call it if another user, |uid|, also needs a waiting order. If the order would then have fewer
 * orders before it, it moves to the end of |uid|'s orders. */
void compile_queue_share(struct compile_queue *queue, struct compile_order *order, uid_t uid);
/* Refuses new orders. Waiting orders end at once with COMPILE_UNAVAILABLE: their done callbacks run
 * within this call. Running orders finish. */
void compile_queue_drain(struct compile_queue *queue);

/* Visits running orders, the most recently started first. */
void compile_queue_each_running(const struct compile_queue *queue,
                                void (*visit)(void *context, const struct compile_order *order),
                                void *context);
/* Visits each pair of user and priority for which orders wait. */
void compile_queue_each_user(const struct compile_queue *queue,
                             void (*visit)(void *context, uid_t uid, enum priority priority,
                                           unsigned waiting),
                             void *context);
unsigned compile_queue_waiting(const struct compile_queue *queue);
unsigned compile_queue_waiting_of(const struct compile_queue *queue, uid_t uid);
unsigned compile_queue_running(const struct compile_queue *queue);
