/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The queue of compiles that wait for a compiler.
 *
 * Role       interactive orders go before prefetch orders.  Each priority has a fair_queue.  Keeps
 *            as many orders running as the executor has compile slots.  Stops running orders that
 *            must give way to another user (compile_yield.h) or that nobody waits for
 * Ownership  borrows an order until |done| was called or compile_queue_cancel returned true
 * Threading  the engine's thread
 */
#include "common/base/cleanup.h"
#include "common/protocol/messages.h"
#include "engine/jobs/executor.h"
#include "engine/jobs/fair_queue.h"

#include <sys/types.h>

struct compile_queue;

struct compile_order { /* to be embedded */
    struct compile_task task;
    uid_t uid;
    enum priority priority;
    /* Called once, on the engine's thread, but never by compile_queue_submit itself. */
    void (*done)(struct compile_order *order);
    /* The members below belong to the queue. */
    struct compile_queue *queue;
    struct fair_item slot;
    struct list_link running;
    bool is_abandoned;
    bool is_stopping;
    bool has_yielded;        /* its compile was stopped for another user, and starts again */
    bool has_delayed_others; /* another user waited for a compiler while this order ran */
    uint64_t queued_ns, started_ns;
};

struct compile_queue_options {
    struct executor *executor; /* borrowed */
    unsigned limit;
    unsigned limit_uid;
};

KILN_MUST_CHECK enum kiln_code compile_queue_create(const struct compile_queue_options *options,
                                                    struct compile_queue **ret_queue,
                                                    struct kiln_err *err);
void compile_queue_destroy(struct compile_queue *queue);
KILN_DEFINE_AUTO(compile_queue)

/* Sets new limits. If more orders already wait than the new limits allow, these orders stay in the
 * queue. */
void compile_queue_set_limits(struct compile_queue *queue, unsigned limit, unsigned limit_uid);
/* Returns KILN_BUSY if too many orders wait; the message names the limit.  Returns KILN_UNAVAILABLE
 * after compile_queue_drain. */
KILN_MUST_CHECK enum kiln_code compile_queue_submit(struct compile_queue *queue,
                                                    struct compile_order *order,
                                                    struct kiln_err *err);
/* Removes a waiting order; |done| will not be called.  Returns false if the order runs. */
bool compile_queue_cancel(struct compile_queue *queue, struct compile_order *order);
/* Records whether |order| is abandoned: nobody wants its result any longer. An abandoned order that
 * runs is stopped when another order needs its compiler, or when it has run for YIELD_SHARE_NS.
 * Call this function again when somebody wants the result. */
void compile_queue_set_abandoned(struct compile_queue *queue, struct compile_order *order,
                                 bool is_abandoned);
/* Stops the running orders that must give way, or that are abandoned and have run for
 * YIELD_SHARE_NS. Call this function once a second, and more often while orders wait. */
void compile_queue_tick(struct compile_queue *queue);
void compile_queue_promote(struct compile_queue *queue, struct compile_order *order);
/* Call this function if another user, |uid|, also needs the result of a waiting order. If the order
 * would start sooner as an order of |uid|, moves it to the end of the orders of |uid|. That is so
 * if |uid| has fewer waiting orders than the order's present user has before it. */
void compile_queue_share(struct compile_queue *queue, struct compile_order *order, uid_t uid);
/* Refuses new orders.  Waiting orders end with COMPILE_UNAVAILABLE within this call.  Running
 * orders finish. */
void compile_queue_drain(struct compile_queue *queue);

void compile_queue_each_running(const struct compile_queue *queue,
                                void (*visit)(void *context, const struct compile_order *order),
                                void *context);
void compile_queue_each_user(const struct compile_queue *queue,
                             void (*visit)(void *context, uid_t uid, enum priority priority,
                                           unsigned waiting),
                             void *context);
unsigned compile_queue_waiting(const struct compile_queue *queue);
unsigned compile_queue_waiting_of(const struct compile_queue *queue, uid_t uid);
/* Returns how many orders wait that do not start after a new order only because of |priority|. The
 * second function counts only those of |uid|. */
unsigned compile_queue_ahead(const struct compile_queue *queue, enum priority priority);
unsigned compile_queue_ahead_of(const struct compile_queue *queue, enum priority priority,
                                uid_t uid);
unsigned compile_queue_running(const struct compile_queue *queue);
