/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Requests that are answered later.
 *
 * Role       one life cycle for all of them: which caller waits, how many of a sort a user may
 *            have, the place in a fair queue, the steps on an executor's lane, the answer, and one
 *            cancel and one destroy
 * Ownership  a deferred is the first member of the request it is part of, and the request is one
 *            heap block.  The block belongs to its handler until deferred_wait; from then on it
 *            frees itself: by deferred_end, by deferred_destroy, or by deferred_cancel when its
 *            caller leaves
 * Threading  the engine's thread, but for a step's |work|, which runs on a lane.  While that runs
 *            the lane alone touches what the work is about
 *
 * A request that does one thing on a lane, one at a time and in fair order:
 *
 *     static void list_work(struct deferred *d) { fill d->answer, or d->rc and d->err }
 *     static const struct deferred_kind list_kind = { .size = sizeof(struct list_request) };
 *     static const struct deferred_step list_step = { .lane = WORK_QUEUE_READ, .work = list_work };
 *
 *     struct list_request *rq = deferred_create(&list_kind, e, caller, header->request_id, err);
 *     if (!rq)
 *         return err->code;
 *     enum kiln_code rc = read_question(rq, body, err);
 *     if (!rc)
 *         rc = deferred_enqueue(&rq->base, queue, &list_step, err);
 *     return deferred_wait_or_destroy(&rq->base, rc);
 */
#include "common/json.h"
#include "engine/jobs/executor.h"
#include "engine/jobs/fair_queue.h"
#include "engine/service/service.h"

struct deferred;

struct deferred_kind {
    size_t size; /* of the request: what deferred_create allocates */
    /* Sends the answer of a request whose rc is KILN_OK to its caller, who waits no more.  NULL:
     * d->answer as JSON. */
    void (*reply)(struct deferred *d, struct caller *caller);
    /* The caller left or cancelled: stops what is under way elsewhere.  True: the request may be
     * destroyed as soon as no step of it runs.  False: it ends by itself.  NULL: true. */
    bool (*stop)(struct deferred *d);
    /* Frees what the request owns beside question, answer and itself.  May be NULL. */
    void (*release)(struct deferred *d);
};

/* A piece of a request's work. */
struct deferred_step {
    enum work_queue work_queue;
    /* On the engine's thread, right before |work| goes to the lane.  May be NULL. */
    void (*begin)(struct deferred *d);
    /* On the lane.  NULL: there is only |done|, at the end of this loop iteration. */
    void (*work)(struct deferred *d);
    /* On the engine's thread, also when the caller has left: then d->caller is NULL.  Runs another
     * step, waits for something else, or calls deferred_end.  NULL: deferred_end. */
    void (*done)(struct deferred *d);
};

/* Requests of one sort, from deferred_join until they are destroyed: also those that still run
 * though their caller left, so that leaving and asking again is no way around the limits. */
struct request_group {
    struct list members;     /* of struct deferred, in order of arrival */
    const char *noun;        /* plural, for messages: "imports" */
    unsigned max;            /* 0: no limit, as in the next three */
    unsigned max_uid;        /* of one user who is no administrator */
    unsigned max_uid_admin;  /* of an administrator */
    unsigned kept_for_admin; /* of |max| */
};

/* Requests of which one at a time runs a step; users are served in fair order, by time. */
struct request_queue {
    struct fair_queue waiting; /* of deferred.slot */
    struct deferred *running;  /* borrowed; NULL: none */
};

struct deferred {
    const struct deferred_kind *kind;
    struct engine *engine;
    struct caller *caller; /* NULL once it was answered, or the caller left */
    uint64_t request_id;
    uint16_t type, code;   /* of the request; and how it ends, for the metrics */
    struct list_link link; /* among the unanswered requests of the caller */
    uid_t uid;             /* who asked, and in which role; the caller may have left */
    enum role role;
    bool is_admin;
    bool is_running;                  /* a step is on its lane, or waits for its end */
    bool is_over;                     /* it was destroyed meanwhile: freed after the step */
    const struct deferred_step *step; /* that runs or waits */
    struct task task;
    uint64_t worked_ns;          /* how long the step's work took */
    struct request_queue *queue; /* that the step waits or runs in; NULL: none */
    struct fair_item slot;
    struct request_group *group; /* NULL: none */
    struct list_link member;     /* of the group */
    struct json *question;       /* owned, as the next; NULL: none */
    struct json *answer;
    enum kiln_code rc;
    struct kiln_err err;
};

#define DEFERRED_OF_MEMBER(link) LIST_ENTRY(link, struct deferred, member)

/* ---- its beginning ---- */

/* Zeroed but for the deferred; NULL and err: out of memory. */
void *deferred_create(const struct deferred_kind *kind, struct engine *e, struct caller *caller,
                      uint64_t request_id, struct kiln_err *err);
/* The same for a zeroed heap block of the caller's. */
void deferred_init(struct deferred *d, const struct deferred_kind *kind, struct engine *e,
                   struct caller *caller, uint64_t request_id);
/* Only from within the request's handler: from now on the caller waits for it. */
void deferred_wait(struct deferred *d);
/* For a handler's last line.  |rc| not KILN_OK: the request is refused, so it is destroyed. */
KILN_MUST_CHECK enum kiln_code deferred_wait_or_destroy(struct deferred *d, enum kiln_code rc);
/* KILN_BUSY, with the limit, when d->uid has too many in |group|, or there are too many in all. */
KILN_MUST_CHECK enum kiln_code deferred_join(struct deferred *d, struct request_group *group,
                                             struct kiln_err *err);

/* ---- its steps ---- */

/* Runs |step| at once.  No step may be under way. */
void deferred_run(struct deferred *d, const struct deferred_step *step);
/* Runs |step| when it is d->uid's turn in |queue|.  KILN_BUSY when too many wait. */
KILN_MUST_CHECK enum kiln_code deferred_enqueue(struct deferred *d, struct request_queue *queue,
                                                const struct deferred_step *step,
                                                struct kiln_err *err);
static inline bool deferred_is_waiting(const struct deferred *d) { return d->slot.user != NULL; }

void request_queue_init(struct request_queue *queue, const struct fair_queue_options *options);
/* Nothing may wait or run; accepts one that was zeroed and never initialized. */
void request_queue_done(struct request_queue *queue);

/* ---- its end ---- */

/* Answers as rc, err and answer say, unless the caller left. */
void deferred_answer(struct deferred *d);
/* The same, and destroys it. */
void deferred_end(struct deferred *d);
/* Refuses it with |why| and cancels what is under way. */
void deferred_fail(struct deferred *d, const struct kiln_err *why, const char *log);
/* The caller waits no more, and is answered by whoever calls this. */
void deferred_leave(struct deferred *d);
/* The same for a request that does not end: the same question is handled again. */
void deferred_forget(struct deferred *d);
/* The caller left or cancelled: stop, and destroy it if nothing runs any more. */
void deferred_cancel(struct deferred *d);
/* Leaves the caller, the queue and the group, and frees it: after its step, if one runs. */
void deferred_destroy(struct deferred *d);
