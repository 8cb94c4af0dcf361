/* SPDX-License-Identifier: MIT */
#include "libclient/connection/multiplexer_parts.h"

/* Maximum number of times that a request is sent.  After so many failures, the request has probably
 * crashed each daemon that received it. */
#define SENDS_MAX 32

void multiplexer_link(struct multiplexer *x, struct request *rq)
{
    list_append(&x->requests, &rq->link);
    x->unsent++;
}

void multiplexer_unlink(struct multiplexer *x, struct request *rq)
{
    if (!list_holds(&rq->link))
        return;
    list_remove(&rq->link);
    *(rq->sent ? &x->sent : &x->unsent) -= 1;
}

struct request *multiplexer_find(const struct multiplexer *x, uint64_t id)
{
    LIST_EACH (&x->requests, struct request, link, rq) {
        if (rq->id == id)
            return rq;
    }
    return NULL;
}

void multiplexer_wake(struct waiter *w)
{
    if (list_holds(&w->sleeping))
        pthread_cond_signal(&w->cond);
}

void multiplexer_end_request(struct multiplexer *x, struct request *rq, enum kiln_code code)
{
    multiplexer_unlink(x, rq);
    rq->code = code;
    rq->waiter->event_count++;
    multiplexer_wake(rq->waiter);
    /* the last step, because now the owner may free the request */
    atomic_store(&rq->ended, true);
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
        kiln_fail(&err, KILN_UNAVAILABLE,
                  "the connection to kilnd was lost %u times during this request; last: %s",
                  rq->sends, why);
    if (err.code)
        multiplexer_end_with(x, rq, &err);
}

void multiplexer_fail_everyone(struct multiplexer *x, const struct kiln_err *why)
{
    LIST_EACH (&x->requests, struct request, link, rq)
        multiplexer_end_with(x, rq, why);
}
