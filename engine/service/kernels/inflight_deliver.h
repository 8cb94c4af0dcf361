/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The end of an in-flight request. Every ticket gets the result, and then the in-flight request is
 * freed: when the call returns, or later if very many tickets wait for it.
 *
 * Threading  the engine's thread
 */
#include "engine/service/kernels/inflight.h"
#include "engine/service/kernels/store_tasks.h"
#include "engine/store/held_objects.h"

/* Delivers f->object, and puts it into the hot set under the requested key. */
void inflight_deliver_object(struct inflight *f, enum tier tier);
/* Delivers a package's object, which answers only requests by name, because packages state no
 * source. */
void inflight_deliver_packaged(struct inflight *f);
/* Returns false if the ticket's user needs a copy (inflight_copy.h). Small objects need no copy,
 * because they are usually sent inside frames. */
static inline bool inflight_may_answer(struct object *object, const struct fetch_ticket *ticket)
{
    return object->size <= OBJECT_INLINE_MAX || ticket->no_object ||
           object_reserve(object, ticket->uid);
}
void inflight_deliver_failure(struct inflight *f, const struct kiln_err *err, const char *log);

/* Sets the origin (target and program) under which hits of f->object are counted. Call it before
 * f->source is freed. If memory runs out, the hits count under "others". */
void inflight_label_object(struct inflight *f);

void inflight_count_result(struct engine *e, const struct fetch_result *r,
                           const struct fetch_ticket *ticket);
/* Counts the compile time that a hit saves. A prefetch saves no user's time. If one batch requests
 * a kernel several times, the kernel counts once, unless another hit of the kernel is counted in
 * between. */
static inline void inflight_account_hit(struct engine *e, struct object *object,
                                        enum lookup_end end, const struct fetch_ticket *ticket)
{
    uint64_t worth_us = accounting_worth(object->compile_ns);
    if (ticket->priority == PRIORITY_PREFETCH) {
        e->stats.prefetch_hits++;
        e->metrics.ahead[end]++;
        return;
    }
    if (ticket->batch && object->counted_in == ticket->batch)
        return;
    object->counted_in = ticket->batch;
    if (object->kind > OBJECT_RTC_RESULT)
        /* a file or mark that belongs to a result: the compile is counted when the result is
         * sent */
        return;
    if (object->kind == OBJECT_RTC_RESULT) {
        e->stats.client_hits++;
        e->metrics.client_saved_us += worth_us;
    }
    e->metrics.saved_us += worth_us;
    accounting_hit(e->metrics.accounting, ticket->uid, object->accounting_kind, worth_us);
}
/* Counts a hit in the hot set. Its look-up time must already be recorded. */
static inline void inflight_count_hit(struct engine *e, const struct fetch_result *r,
                                      const struct fetch_ticket *ticket)
{
    e->stats.fetches += ticket->is_trial;
    e->stats.hits_hot += !ticket->is_rtc;
    inflight_account_hit(e, r->object, LOOKUP_HOT, ticket);
    recency_touch(e, &r->key);
}
