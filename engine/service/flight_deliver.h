/* SPDX-License-Identifier: MIT */
#pragma once

/* A flight's end: every ticket gets the result, and the flight is gone when the call returns. */
#include "engine/service/flight.h"
#include "engine/service/store_tasks.h"

/* What the flight looked up or compiled, under the key that was asked for; it becomes hot. */
void flight_deliver_object(struct flight *f, enum tier tier);
/* A package's row does not say what it was made of: it answers those who ask by the name. */
void flight_deliver_packaged(struct flight *f);
/* |log| may be NULL. */
void flight_deliver_failure(struct flight *f, const struct kiln_err *err, const char *log);

/* Its hits are booked under what it was made of: before it is delivered or the source goes. */
void flight_label_object(struct flight *f);

/* What somebody imported for himself is not there for others, also where they know its key. */
bool flight_may_have(const struct object *object, uid_t uid);
/* Into the counters, and the kernel's use. */
void flight_count_result(struct engine *e, const struct fetch_result *r,
                         const struct fetch_ticket *ticket);
/* The same of a hot one, whose time has been noted. */
static inline void flight_count_hit(struct engine *e, const struct fetch_result *r, uid_t uid)
{
    uint64_t worth_us = ledger_worth(r->object->compile_ns);
    e->stats.hits_hot++;
    e->figures.saved_us += worth_us;
    ledger_hit(e->figures.ledger, uid, r->object->ledger_kind, worth_us);
    recency_touch(e, &r->key);
}
