/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that are answered later.
 *
 * Role       implements what these requests have in common: the waiting caller, limits for each
 *            user, fair queues, steps on a work queue, the answer, and cancelling
 * Ownership  struct deferred is the first member of a request, and the request is one heap block,
 *            charged to its user's budget. The block belongs to the request's handler until
 *            deferred_wait. From then on, the request frees itself: in deferred_end, in
 *            deferred_destroy, or in deferred_cancel when its caller leaves
 * Threading  the engine's thread, except for a step's |work|, which runs on a work queue. While
 *            |work| runs, nothing else uses the data that it works on
 *
 * Example: a request with one step. |queue| serves users in fair order and runs one step at a time.
 *
 *     static void list_work(struct deferred *d) { fill d->answer, or d->rc and d->err }
 *     static const struct deferred_kind list_kind = { .size = sizeof(struct list_request) };
 *     static const struct deferred_step list_step = { .work_queue = WORK_QUEUE_READ,
 *                                                     .work = list_work };
 *
 *     struct list_request *rq = deferred_create(&list_kind, e, caller, header->request_id, err);
 *     if (!rq)
 *         return err->code;
 *     enum kiln_code rc = read_question(rq, body, err);
 *     if (!rc)
 *         rc = deferred_enqueue(&rq->base, queue, &list_step, err);
 *     return deferred_wait_or_destroy(&rq->base, rc);
 */
#include "common/base/json.h"
#include "engine/jobs/executor.h"
#include "engine/jobs/fair_queue.h"
#include "engine/service/service.h"

struct deferred;

struct deferred_kind {
    size_t size;
    /* Sends the answer. Called after deferred_leave, if rc is KILN_OK. NULL: d->answer is sent as
     * JSON. */
    void (*reply)(struct deferred *d, struct caller *caller);
    /* Called when the caller has left or cancelled. Stops work that this request has started
     * elsewhere, such as a fetch. Returns false if the request will end by itself. Returns true if
     * the request may be destroyed when none of its steps runs. If true is returned while a step
     * waits on its work queue, the step is dropped, and |stop| is called once more. NULL is the
     * same as a function that returns true. */
    bool (*stop)(struct deferred *d);
    void (*release)(struct deferred *d);
};

struct deferred_step {
    enum work_queue work_queue;
    bool is_brief; /* |work| takes less than a millisecond */
    /* Called on the engine's thread right before |work| is handed to the queue. May be NULL. */
    void (*begin)(struct deferred *d);
    /* Called on the work queue. NULL: only |done| is called, at the end of this loop iteration. */
    void (*work)(struct deferred *d);
    /* Called on the engine's thread after |work|. Returns true to run |work| once more. May be
     * NULL. */
    bool (*again)(struct deferred *d);
    /* Called on the engine's thread after the last |work|, even if d->caller is NULL. Must run
     * another step, wait for something else, or call deferred_end. NULL: deferred_end is called. */
    void (*done)(struct deferred *d);
};

/* Requests that count toward the same limits. A request counts until it is destroyed, even if its
 * caller has left. So a client cannot evade the limits by leaving and asking again. */
struct request_group {
    struct list members;
    const char *noun; /* plural, for messages: "imports" */
    unsigned max;     /* 0: no limit; the same holds for the next two members */
    unsigned max_uid;
    unsigned max_uid_admin;
    unsigned kept_for_admin; /* part of |max| that only administrators may use */
};

/* Runs one step at a time. First serves the user whose steps have taken the least time. */
struct request_queue {
    struct fair_queue waiting;
    struct deferred *running;
};

struct deferred {
    const struct deferred_kind *kind;
    struct engine *engine;
    struct caller *caller; /* NULL once the request was answered, or the caller left */
    uint64_t request_id;
    uint16_t type, code;
    struct list_link link;
    uid_t uid; /* |uid| and |role| are copies, because the caller may leave */
    enum role role;
    bool is_admin;
    uint64_t charged; /* bytes of the user's budget, returned when the request is freed */
    bool is_running;  /* a step is on its work queue, or runs at the end of the loop iteration */
    bool is_over;     /* the request was destroyed while a step ran, and is freed after that step */
    const struct deferred_step *step;
    struct task task;
    uint64_t worked_ns; /* time of this step on its work queue so far */
    void *part;
    struct request_queue *queue;
    struct fair_item slot;
    struct toolchain_wait *toolchains; /* owned; NULL: the request waits for no probe */
    struct bytes body;
    struct request_group *group;
    struct list_link member;
    struct json *question; /* owned, like |answer|; either may be NULL */
    struct json *answer;
    enum kiln_code rc;
    struct kiln_err err;
};

/* Allocates a request, zeroed except for its struct deferred, and charges it to its user.
 * Returns NULL and fills err if memory runs out (KILN_NO_MEMORY), or if the user's waiting
 * requests already hold too much memory (KILN_BUSY). */
void *deferred_create(const struct deferred_kind *kind, struct engine *e, struct caller *caller,
                      uint64_t request_id, struct kiln_err *err);
/* Charges the user for |bytes| until the request is freed. Returns KILN_BUSY if this would exceed
 * the budget. */
KILN_MUST_CHECK enum kiln_code deferred_charge(struct deferred *d, uint64_t bytes,
                                               struct kiln_err *err);
void deferred_refund(struct deferred *d, uint64_t bytes);
/* Makes the caller wait for the request. Call this function only within the request's handler. */
void deferred_wait(struct deferred *d);
/* Like deferred_wait, but if |rc| is not KILN_OK, destroys the request and returns |rc|. */
KILN_MUST_CHECK enum kiln_code deferred_wait_or_destroy(struct deferred *d, enum kiln_code rc);
/* Adds the request to the group. Returns KILN_BUSY if the group has too many requests, of this user
 * or in total. */
KILN_MUST_CHECK enum kiln_code deferred_join(struct deferred *d, struct request_group *group,
                                             struct kiln_err *err);

/* Runs |step| without a request queue. No other step of the request may be running or waiting. */
void deferred_run(struct deferred *d, const struct deferred_step *step);
KILN_MUST_CHECK enum kiln_code deferred_enqueue(struct deferred *d, struct request_queue *queue,
                                                const struct deferred_step *step,
                                                struct kiln_err *err);
static inline bool deferred_is_waiting(const struct deferred *d) { return d->slot.user != NULL; }

void request_queue_init(struct request_queue *queue, const struct fair_queue_options *options);
/* Removes the next waiting request, and returns it, or NULL if there is none. Used to empty a queue
 * before request_queue_done. */
struct deferred *request_queue_pop(struct request_queue *queue);
/* The queue must be empty, without a running request. Accepts a zeroed queue. */
void request_queue_done(struct request_queue *queue);

/* Sends d->answer, or the error in d->rc and d->err. Sends nothing if the caller has left. */
void deferred_answer(struct deferred *d);
void deferred_end(struct deferred *d);
/* Refuses the request with |why| and cancels its work. */
void deferred_fail(struct deferred *d, const struct kiln_err *why, const char *log);
/* Removes the request from its caller's unanswered requests. Sends nothing. */
void deferred_leave(struct deferred *d);
/* Stops a request whose caller has left or cancelled, and destroys it once no step runs. */
void deferred_cancel(struct deferred *d);
/* Frees the request now, or, if one of its steps runs, after that step. */
void deferred_destroy(struct deferred *d);
