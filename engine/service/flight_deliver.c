/* SPDX-License-Identifier: MIT */
#include "engine/service/flight_deliver.h"

#include "engine/service/store_tasks.h"

void flight_count_result(struct engine *e, const struct fetch_result *r)
{
    if (r->err.code) {
        e->stats.misses++;
        return;
    }
    switch (r->tier) {
    case TIER_HOT: e->stats.hits_hot++; break;
    case TIER_DISK: e->stats.hits_disk++; break;
    case TIER_PACKAGE: e->stats.hits_package++; break;
    case TIER_REMOTE: e->stats.hits_remote++; break;
    default: e->stats.misses++; return;
    }
    recency_touch(e, &r->key);
}

bool flight_may_have(const struct object *object, uid_t uid)
{
    return !object || !object->is_private || object->owner == (uint32_t)uid;
}

/* Every ticket gets the result; the flight is gone when this returns. */
static void deliver(struct flight *f, const struct fetch_result *result)
{
    struct engine *e = f->engine;
    flight_leave_table(f); /* who asks from now on starts afresh */
    f->stage = DELIVERING;
    struct fetch_result hidden = { .err = { .code = KILN_NOT_FOUND }, .key = f->asked };
    while (f->tickets) {
        struct fetch_ticket *t = f->tickets;
        const struct fetch_result *r = flight_may_have(result->object, t->uid) ? result : &hidden;
        flight_detach(t);
        flight_count_result(e, r);
        t->ready(t, r);
    }
    flight_destroy(f);
}

void flight_deliver_failure(struct flight *f, const struct kiln_err *err, const char *log)
{
    struct fetch_result result = { .err = *err, .key = f->asked, .log = log };
    deliver(f, &result);
}

/* What was removed while it was looked up must not come back. */
static void keep_hot(struct flight *f, const struct digest *key)
{
    if (!f->no_cache && f->generation == f->engine->hot_generation)
        hot_set_insert(f->engine->hot, key, f->object);
}

void flight_deliver_object(struct flight *f, enum tier tier)
{
    struct fetch_result result = { .tier = tier, .key = f->asked, .object = f->object };
    keep_hot(f, &f->asked);
    if (f->is_shared)
        recency_touch(f->engine, &f->shared_key);
    deliver(f, &result);
}

void flight_deliver_packaged(struct flight *f)
{
    const struct fetch_result result = { .tier = TIER_PACKAGE,
                                         .key = kernel_name_packaged(&f->alias->name),
                                         .object = f->object };
    keep_hot(f, &result.key);
    deliver(f, &result);
}
