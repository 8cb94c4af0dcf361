/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/flight.h"

#include "engine/digest/sha256.h"
#include "engine/service/kernels/source.h"

#include <assert.h>

struct flights {
    struct hash_table by_place;
    unsigned count;
};

enum kiln_code flights_create(struct flights **ret_flights, struct kiln_err *err)
{
    struct flights *flights = calloc(1, sizeof(*flights));
    if (!flights)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot open the table of in-flight requests");
    *ret_flights = flights;
    return KILN_OK;
}

void flights_destroy(struct flights *flights)
{
    if (flights)
        hash_table_done(&flights->by_place);
    free(flights);
}

unsigned flights_count(const struct flights *flights) { return flights->count; }

struct flight *flight_of_task(struct task *t)
{
    return (struct flight *)(void *)((char *)t - offsetof(struct flight, task));
}

/* ---- the table of flights ---- */

struct flight *flight_find(struct engine *e, const struct digest *place)
{
    HASH_EACH (&e->flights->by_place, digest_hash(place), struct flight, by_place, f)
        if (digest_equal(&f->place, place))
            return f;
    return NULL;
}

void flight_leave_table(struct flight *f)
{
    hash_table_remove(&f->engine->flights->by_place, &f->by_place);
}

void flight_enter_table(struct flight *f, const struct digest *place)
{
    flight_leave_table(f);
    assert(!flight_find(f->engine, place));
    f->place = *place;
    hash_table_add(&f->engine->flights->by_place, &f->by_place, digest_hash(place));
}

void flight_destroy(struct flight *f)
{
    flight_leave_table(f);
    f->engine->flights->count--;
    compile_outcome_done(&f->order.task.outcome);
    object_unref(f->object);
    source_destroy(f->source);
    alias_destroy(f->alias);
    free(f);
}

struct flight *flight_create(struct engine *e, const struct digest *asked,
                             const struct fetch_ticket *asker)
{
    struct flight *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->engine = e;
    f->asked = *asked;
    f->uid = asker->uid;
    f->look.reader.uid = (uint32_t)asker->uid;
    f->err = KILN_ERR_INIT;
    f->order.task.outcome = COMPILE_OUTCOME_INIT;
    e->flights->count++;
    return f;
}

struct digest flight_place(const struct digest *key, const struct fetch_want *want)
{
    struct sha256 s;
    if (!want->name)
        return *key;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of(key->bytes, DIGEST_SIZE));
    sha256_put_sized(&s, want->name->database_id);
    sha256_put_sized(&s, want->name->name);
    sha256_put_sized(&s, want->name->args);
    sha256_put_sized(&s, want->name->target);
    return sha256_end(&s);
}

void flight_attach(struct flight *f, struct fetch_ticket *t)
{
    t->flight = f;
    t->previous = NULL;
    t->next = f->tickets;
    if (f->tickets)
        f->tickets->previous = t;
    f->tickets = t;
}

void flight_detach(struct fetch_ticket *t)
{
    struct flight *f = t->flight;
    *(t->previous ? &t->previous->next : &f->tickets) = t->next;
    if (t->next)
        t->next->previous = t->previous;
    t->flight = NULL;
    t->next = t->previous = NULL;
}
