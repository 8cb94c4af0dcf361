/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_put.h"

#include "engine/service/tuning/tuning_state.h"

static struct tuning_put *put_of(struct tuning_change *change)
{
    return LIST_ENTRY(change, struct tuning_put, change);
}

static enum kiln_code begin_put(struct tuning_change *change, struct tuning *tuning,
                                struct kiln_err *err)
{
    struct tuning_put *put = put_of(change);
    const struct tuning_options *options = &change->request->engine->tuning->options;
    if (!options->directory && !options->data)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "there is no state directory, so measurements cannot be stored");
    enum kiln_code rc =
        tuning_job_put(tuning, put->record->rows, put->record->count, &change->job, err);
    if (!rc && put->is_once)
        tuning_job_once(change->job, &put->token);
    return rc;
}

static void put_ended(struct tuning_change *change)
{
    struct tuning_put *put = put_of(change);
    struct deferred *d = &put->base;
    d->engine->stats.tuning_puts += d->rc == KILN_OK && change->counts.records > 0;
    if (put->kind->ended)
        put->kind->ended(put);
    deferred_end(d);
}

static const struct tuning_change_kind change_kind = { .begin = begin_put, .ended = put_ended };

static void reply_put(struct deferred *d, struct caller *caller)
{
    struct tuning_put *put = (struct tuning_put *)d;
    put->kind->reply(put, caller);
}

static bool stop_put(struct deferred *d)
{
    struct tuning_put *put = (struct tuning_put *)d;
    return !put->kind->stays && tuning_queue_may_stop(&put->change);
}

static void release_put(struct deferred *d)
{
    struct tuning_put *put = (struct tuning_put *)d;
    record_destroy(put->record);
}

static const struct deferred_kind deferred_put = {
    .size = sizeof(struct tuning_put), .reply = reply_put, .stop = stop_put, .release = release_put
};

static uint64_t size_of(const struct tuning_row *rows, size_t count)
{
    uint64_t size = count * sizeof(*rows);
    for (size_t i = 0; i < count; i++)
        size += rows[i].id.size + rows[i].values.size;
    return size;
}

static enum kiln_code keep_rows(struct tuning_put *put, const struct tuning_putting *what,
                                struct kiln_err *err)
{
    enum kiln_code rc = deferred_charge(&put->base, size_of(what->rows, what->count), err);
    if (rc)
        return rc;
    put->record = record_create(&what->rows[0].place, what->rows, what->count);
    return put->record ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "cannot record the measurement");
}

enum kiln_code tuning_put_begin(struct engine *e, struct caller *caller, uint64_t request_id,
                                const struct tuning_putting *what, struct kiln_err *err)
{
    struct tuning_put *put = deferred_create(&deferred_put, e, caller, request_id, err);
    if (!put)
        return err->code;
    put->kind = what->kind;
    put->lease = what->lease;
    put->is_once = what->token != NULL;
    if (what->token)
        put->token = *what->token;
    put->change.kind = &change_kind;
    put->change.request = &put->base;
    enum kiln_code rc =
        deferred_join(&put->base, requests_group(e->requests, GROUP_TUNING_PUTS), err);
    if (!rc)
        rc = keep_rows(put, what, err);
    if (!rc) {
        deferred_wait(&put->base);
        rc = tuning_queue_add(&put->change, err);
    }
    if (rc)
        deferred_destroy(&put->base);
    return rc;
}
