/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_put.h"

#include "engine/service/budget.h"
#include "engine/service/tuning/tuning_state.h"

static struct tuning_put *put_of(struct tuning_change *change)
{
    return (struct tuning_put *)(void *)((char *)change - offsetof(struct tuning_put, change));
}

static void put_destroy(struct tuning_put *put)
{
    service_waiter_remove(&put->waiter);
    if (put->charged)
        budget_give(put->change.engine->budget, put->change.uid, put->charged);
    record_destroy(put->record);
    free(put);
}

/* ---- its slot in the queue ---- */

static enum kiln_code begin_put(struct tuning_change *change, struct tuning *tuning,
                                struct kiln_err *err)
{
    struct tuning_put *put = put_of(change);
    const struct tuning_options *options = &change->engine->tuning->options;
    if (!options->directory && !options->data) /* of a program that has data inside it is known */
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "this kiln has no state folder: what is measured cannot be kept now");
    enum kiln_code rc =
        tuning_job_put(tuning, put->record->rows, put->record->count, &change->job, err);
    if (!rc && put->is_once)
        tuning_job_once(change->job, &put->token);
    return rc;
}

static void put_ended(struct tuning_change *change)
{
    struct tuning_put *put = put_of(change);
    struct caller *caller = put->waiter.caller;
    uint64_t id = put->waiter.request_id;
    change->engine->stats.tuning_puts += change->rc == KILN_OK && change->counts.records > 0;
    if (change->rc && !change->err.code)
        change->err.code = change->rc;
    service_waiter_remove(&put->waiter);
    put->kind->answer(put, caller, id);
    put_destroy(put);
}

static const struct tuning_change_kind change_kind = { .begin = begin_put,
                                                       .ended = put_ended,
                                                       .is_short = true };

static void cancel_put(struct service_waiter *w)
{
    struct tuning_put *put = (struct tuning_put *)w;
    service_waiter_remove(w);
    if (!put->kind->stays && tuning_queue_withdraw(&put->change))
        put_destroy(put);
}

static uint64_t size_of(const struct tuning_row *rows, size_t count)
{
    uint64_t size = count * sizeof(*rows);
    for (size_t i = 0; i < count; i++)
        size += rows[i].id.size + rows[i].values.size;
    return size;
}

enum kiln_code tuning_put_begin(struct engine *e, struct caller *caller, uint64_t request_id,
                                const struct tuning_putting *what, struct kiln_err *err)
{
    uint64_t size = size_of(what->rows, what->count);
    enum kiln_code rc = budget_take(e->budget, caller->uid, size, err);
    if (rc)
        return rc;
    struct tuning_put *put = calloc(1, sizeof(*put));
    struct record *record =
        put ? record_create(&what->rows[0].place, what->rows, what->count) : NULL;
    if (!record) {
        free(put);
        budget_give(e->budget, caller->uid, size);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot record what was measured");
    }
    put->kind = what->kind;
    put->record = record;
    put->charged = size;
    put->lease = what->lease;
    put->is_once = what->token != NULL;
    if (what->token)
        put->token = *what->token;
    put->change.kind = &change_kind;
    put->change.engine = e;
    put->change.uid = caller->uid;
    service_waiter_add(&put->waiter, e, caller, request_id, cancel_put);
    rc = tuning_queue_add(e, caller->uid, &put->change, err);
    if (rc)
        put_destroy(put);
    return rc;
}
