/* SPDX-License-Identifier: MIT */
#include "libclient/connection/multiplexer_parts.h"

/* A request that was there whenever the daemon died so often is taken for the cause. */
#define SENDS_MAX 32

void multiplexer_link(struct multiplexer *x, struct request *rq)
{
    rq->previous = x->last;
    rq->next = NULL;
    *(x->last ? &x->last->next : &x->first) = rq;
    x->last = rq;
    rq->linked = true;
    x->unsent++;
}

void multiplexer_unlink(struct multiplexer *x, struct request *rq)
{
    if (!rq->linked)
        return;
    *(rq->previous ? &rq->previous->next : &x->first) = rq->next;
    *(rq->next ? &rq->next->previous : &x->last) = rq->previous;
    rq->linked = false;
    *(rq->sent ? &x->sent : &x->unsent) -= 1;
}

struct request *multiplexer_find(const struct multiplexer *x, uint64_t id)
{
    struct request *rq = x->first;
    while (rq && rq->id != id)
        rq = rq->next;
    return rq;
}

void multiplexer_wake(struct waiter *w)
{
    if (w->asleep)
        pthread_cond_signal(&w->cond);
}

void multiplexer_end_request(struct multiplexer *x, struct request *rq, enum kiln_code code)
{
    multiplexer_unlink(x, rq);
    rq->code = code;
    rq->waiter->news++;
    multiplexer_wake(rq->waiter);
    atomic_store(&rq->ended, true); /* last: its owner may be gone at once */
}

void multiplexer_end_with(struct multiplexer *x, struct request *rq, const struct kiln_err *why)
{
    rq->failure.err = *why;
    multiplexer_end_request(x, rq, why->code);
}

void multiplexer_keep_for_next(struct multiplexer *x, struct request *rq, const char *why)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (rq->connection)
        kiln_fail(&err, KILN_NOT_FOUND, "%s", why);
    else if (rq->once)
        kiln_fail(&err, KILN_UNAVAILABLE, "%s", why);
    else if (rq->sends >= SENDS_MAX)
        kiln_fail(&err, KILN_UNAVAILABLE, "kilnd went away %u times over this request; last: %s",
                  rq->sends, why);
    if (err.code)
        multiplexer_end_with(x, rq, &err);
}

void multiplexer_fail_everyone(struct multiplexer *x, const struct kiln_err *why)
{
    while (x->first)
        multiplexer_end_with(x, x->first, why);
}
