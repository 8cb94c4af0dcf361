/* SPDX-License-Identifier: MIT */
#include "libclient/connection/exchange_parts.h"

/* A request that was there whenever the daemon died so often is taken for the cause. */
#define SENDS_MOST 32

void exchange_link(struct exchange *x, struct request *rq)
{
    rq->previous = x->last;
    rq->next = NULL;
    *(x->last ? &x->last->next : &x->first) = rq;
    x->last = rq;
    rq->linked = true;
    x->unsent++;
}

void exchange_unlink(struct exchange *x, struct request *rq)
{
    if (!rq->linked)
        return;
    *(rq->previous ? &rq->previous->next : &x->first) = rq->next;
    *(rq->next ? &rq->next->previous : &x->last) = rq->previous;
    rq->linked = false;
    *(rq->sent ? &x->sent : &x->unsent) -= 1;
}

struct request *exchange_find(const struct exchange *x, uint64_t id)
{
    struct request *rq = x->first;
    while (rq && rq->id != id)
        rq = rq->next;
    return rq;
}

void exchange_wake(struct waiter *w)
{
    if (w->asleep)
        pthread_cond_signal(&w->cond);
}

void exchange_end_request(struct exchange *x, struct request *rq, enum kiln_code code)
{
    exchange_unlink(x, rq);
    rq->code = code;
    rq->waiter->news++;
    exchange_wake(rq->waiter);
    atomic_store(&rq->ended, true); /* last: its owner may be gone at once */
}

void exchange_end_with(struct exchange *x, struct request *rq, const struct kiln_err *why)
{
    rq->failure.err = *why;
    exchange_end_request(x, rq, why->code);
}

void exchange_keep_for_next(struct exchange *x, struct request *rq, const char *why)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (rq->connection)
        kiln_fail(&err, KILN_NOT_FOUND, "%s", why);
    else if (rq->once)
        kiln_fail(&err, KILN_UNAVAILABLE, "%s", why);
    else if (rq->sends >= SENDS_MOST)
        kiln_fail(&err, KILN_UNAVAILABLE, "kilnd went away %u times over this request; last: %s",
                  rq->sends, why);
    if (err.code)
        exchange_end_with(x, rq, &err);
}

void exchange_fail_everyone(struct exchange *x, const struct kiln_err *why)
{
    while (x->first)
        exchange_end_with(x, x->first, why);
}
