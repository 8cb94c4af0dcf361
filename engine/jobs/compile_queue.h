/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The queue before the compilers: who is next.
 *
 * Role       interactive orders before prefetch; within each a fair_queue: the user whose compiles
 *            took least is next, each user's own in order; hands over as many as the executor runs
 *            at once
 * Ownership  borrows orders until their done callback ran or compile_queue_cancel said true
 * Threading  the engine's thread
 */
#include "common/cleanup.h"
#include "common/messages.h"
#include "engine/jobs/executor.h"
#include "engine/jobs/fair_queue.h"

#include <sys/types.h>

struct compile_queue;

struct compile_order {        /* embed it; fill the first part */
    struct compile_task task; /* job filled; outcome as the executor leaves it */
    uid_t uid;
    enum priority priority;
    /* Once, on the engine's thread, never from within submit.  The order is the caller's again. */
    void (*done)(struct compile_order *order);
    /* The queue's from here on. */
    struct compile_queue *queue;
    struct fair_item slot;    /* while it waits */
    struct list_link running; /* among those that run */
    /* When it was submitted and handed over; 0: not yet. */
    uint64_t queued_ns, started_ns;
};

struct compile_queue_options {
    struct executor *executor; /* borrowed */
    unsigned limit;            /* orders waiting, all users together */
    unsigned limit_uid;        /* orders waiting, one user */
};

KILN_MUST_CHECK enum kiln_code compile_queue_create(const struct compile_queue_options *options,
                                                    struct compile_queue **ret_queue,
                                                    struct kiln_err *err);
/* Only when nothing waits or runs. */
void compile_queue_destroy(struct compile_queue *queue);
KILN_DEFINE_AUTO(compile_queue)

/* What waits already stays, also beyond them. */
void compile_queue_set_limits(struct compile_queue *queue, unsigned limit, unsigned limit_uid);
/* KILN_BUSY, saying whose limit, when too many wait; KILN_UNAVAILABLE after drain. */
KILN_MUST_CHECK enum kiln_code compile_queue_submit(struct compile_queue *queue,
                                                    struct compile_order *order,
                                                    struct kiln_err *err);
/* True when it was still waiting: it is forgotten and done will not be called.  False when it
 * runs: done will come. */
bool compile_queue_cancel(struct compile_queue *queue, struct compile_order *order);
/* A waiting prefetch order that someone now waits for becomes interactive. */
void compile_queue_promote(struct compile_queue *queue, struct compile_order *order);
/* |uid| waits for a waiting order too: it moves to the end of that user's where
 * fewer wait before it. */
void compile_queue_share(struct compile_queue *queue, struct compile_order *order, uid_t uid);
/* Refuses new orders; those waiting end at once with COMPILE_UNAVAILABLE (their done callbacks run
 * from within this call); those running go on. */
void compile_queue_drain(struct compile_queue *queue);

/* Those that run, the latest first. */
void compile_queue_each_running(const struct compile_queue *queue,
                                void (*visit)(void *context, const struct compile_order *order),
                                void *context);
/* Once for each user and priority of which some wait. */
void compile_queue_each_user(const struct compile_queue *queue,
                             void (*visit)(void *context, uid_t uid, enum priority priority,
                                           unsigned waiting),
                             void *context);
unsigned compile_queue_waiting(const struct compile_queue *queue);
unsigned compile_queue_running(const struct compile_queue *queue);
