/* SPDX-License-Identifier: MIT */
#pragma once

/* A flight's end: every ticket gets the result, and the flight is gone when the call returns. */
#include "engine/service/kernels/inflight.h"
#include "engine/service/kernels/store_tasks.h"

/* What the flight looked up or compiled, under the key that was asked for; it becomes hot. */
void inflight_deliver_object(struct inflight *f, enum tier tier);
/* A package's row does not say what it was made of: it answers those who ask by the name. */
void inflight_deliver_packaged(struct inflight *f);
/* |log| may be NULL. */
void inflight_deliver_failure(struct inflight *f, const struct kiln_err *err, const char *log);

/* Its hits are booked under what it was made of: before it is delivered or the source goes. */
void inflight_label_object(struct inflight *f);

/* What somebody imported for himself is not there for others, also where they know its key. */
bool inflight_may_have(const struct object *object, uid_t uid);
/* Into the counters, and the kernel's use. */
void inflight_count_result(struct engine *e, const struct fetch_result *r,
                           const struct fetch_ticket *ticket);
/* What was saved: the kernel's compile time, once for a batch however often it names the kernel.
 * Tickets of one batch that get the same object get it one after the other.  A prefetch that finds
 * it saves nobody's time. */
static inline void inflight_book_hit(struct engine *e, struct object *object, enum lookup_end end,
                                     const struct fetch_ticket *ticket)
{
    uint64_t worth_us = ledger_worth(object->compile_ns);
    if (ticket->priority == PRIORITY_PREFETCH) {
        e->stats.prefetch_hits++;
        e->figures.ahead[end]++;
        return;
    }
    if (ticket->batch && object->booked_for == ticket->batch)
        return;
    object->booked_for = ticket->batch;
    e->figures.saved_us += worth_us;
    ledger_hit(e->figures.ledger, ticket->uid, object->ledger_kind, worth_us);
}
/* The same as inflight_count_result of a hot one, whose time has been noted. */
static inline void inflight_count_hit(struct engine *e, const struct fetch_result *r,
                                      const struct fetch_ticket *ticket)
{
    e->stats.hits_hot++;
    inflight_book_hit(e, r->object, LOOKUP_HOT, ticket);
    recency_touch(e, &r->key);
}
