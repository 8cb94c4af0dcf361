/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/inflight_deliver.h"

#include "engine/service/kernels/inflight_copy.h"
#include "engine/service/kernels/source.h"

#include <stdio.h>

static void write_origin(struct object_origin *what, struct bytes target, struct bytes program)
{
    snprintf(what->target, sizeof(what->target), "%.*s", (int)target.size,
             (const char *)target.data);
    snprintf(what->program, sizeof(what->program), "%.*s", (int)program.size,
             (const char *)program.data);
}

static void count_miss(struct engine *e, const struct fetch_result *r,
                       const struct fetch_ticket *ticket)
{
    uint64_t *const reasons[] = {
        [MISS_NEW] = &e->stats.misses_new,
        [MISS_DAMAGED] = &e->stats.misses_damaged,
        [MISS_STORE] = &e->stats.misses_store,
        [MISS_UNCACHED] = &e->stats.misses_uncached,
        [MISS_REMEMBERED] = &e->stats.misses_remembered,
        [MISS_UNKNOWN] = &e->stats.misses_unknown,
        [MISS_REFUSED] = &e->stats.misses_refused,
        [MISS_PREFETCH] = &e->stats.misses_prefetch,
    };
    bool failed = r->err.code != KILN_OK;
    e->stats.misses++;
    ++*reasons[ticket->priority == PRIORITY_PREFETCH ? MISS_PREFETCH : r->reason];
    e->metrics.compiled += !failed;
    metrics_lookup(&e->metrics, failed ? LOOKUP_NONE : LOOKUP_COMPILE, ticket->began_ns);
}

static enum lookup_end count_tier(struct engine *e, enum tier tier)
{
    if (tier == TIER_PACKAGE) {
        e->stats.hits_package++;
        return LOOKUP_PACKAGE;
    }
    if (tier == TIER_FLEET) {
        e->stats.hits_fleet++;
        return LOOKUP_FLEET;
    }
    if (tier == TIER_HOT) {
        e->stats.hits_hot++;
        return LOOKUP_HOT;
    }
    e->stats.hits_disk++;
    return LOOKUP_DISK;
}

static void count_rtc(struct engine *e, const struct fetch_result *r,
                      const struct fetch_ticket *ticket)
{
    if (r->err.code || r->tier == TIER_COMPILED)
        return;
    inflight_account_hit(e, r->object, LOOKUP_DISK, ticket);
    recency_touch(e, &r->key);
}

void inflight_count_result(struct engine *e, const struct fetch_result *r,
                           const struct fetch_ticket *ticket)
{
    if (ticket->is_rtc) {
        count_rtc(e, r, ticket);
        return;
    }
    if (r->err.code && ticket->is_trial)
        return;
    e->stats.fetches += ticket->is_trial;
    if (r->err.code || r->tier == TIER_COMPILED) {
        count_miss(e, r, ticket);
        return;
    }
    enum lookup_end end = count_tier(e, r->tier);
    metrics_lookup(&e->metrics, end, ticket->began_ns);
    inflight_account_hit(e, r->object, end, ticket);
    recency_touch(e, &r->key);
}

static bool is_damaged(const struct inflight *f)
{
    const struct lookup_report *r = f->report;
    return f->lookup.damaged || f->lookup.shared_damaged ||
           (r && (r->by_key.damaged[0] || r->by_name.damaged[0]));
}

static bool is_refusal(const struct inflight *f, enum kiln_code code)
{
    bool compiled = f->order.task.result.end != COMPILE_DONE || f->stage == SEALING;
    return !compiled || code == KILN_UNAVAILABLE || code == KILN_BUSY;
}

static enum miss_reason reason_of(const struct inflight *f, enum kiln_code code)
{
    if (f->no_cache)
        return MISS_UNCACHED;
    if (is_damaged(f))
        return MISS_DAMAGED;
    if (f->report && f->report->trouble.code)
        return MISS_STORE;
    if (!f->source && code)
        return MISS_UNKNOWN;
    return code && is_refusal(f, code) ? MISS_REFUSED : MISS_NEW;
}

void inflight_label_object(struct inflight *f)
{
    struct object *object = f->object;
    if (!object->origin)
        object->origin = calloc(1, sizeof(*object->origin));
    struct object_origin *what = object->origin;
    if (!what)
        return;
    if (!what->target[0] && f->source) {
        write_origin(what, f->source->job.target, f->source->job.program);
    } else if (!what->target[0] && f->name_key) {
        const struct kernel_name *n = &f->name_key->name;
        write_origin(what, n->target.size ? n->target : n->database_id, n->name);
    }
    if (object->kind != OBJECT_CODE || object->is_private)
        snprintf(what->program, sizeof(what->program), "%s",
                 object->kind != OBJECT_CODE ? ACCOUNTING_RTC : ACCOUNTING_PRIVATE);
    object->accounting_kind = accounting_kind_of(f->engine->metrics.accounting, what);
    free(what);
    object->origin = NULL;
}

/* Maximum number of tickets that get the result in one loop iteration. Each takes about half a
 * microsecond. */
#define DELIVERED_AT_ONCE 2048

static void give_result(struct engine *e, struct fetch_ticket *t, const struct fetch_result *r)
{
    inflight_count_result(e, r, t);
    t->ready(t, r); /* may cancel other tickets */
}

static void give_copy(struct engine *e, struct fetch_ticket *t, const struct fetch_result *r)
{
    struct fetch_result failure = { .err = KILN_ERR_INIT, .key = r->key, .reason = MISS_REFUSED };
    if (inflight_copy(e, &r->key, r->object, t, &failure.err))
        give_result(e, t, &failure);
}

static void deliver_some(struct inflight *f, const struct fetch_result *result)
{
    struct engine *e = f->engine;
    struct fetch_result hidden = { .err = { .code = KILN_NOT_FOUND },
                                   .key = f->asked,
                                   .reason = MISS_UNKNOWN };
    for (unsigned i = 0; i < DELIVERED_AT_ONCE && !list_is_empty(&f->tickets); i++) {
        struct fetch_ticket *t = LIST_FIRST(&f->tickets, struct fetch_ticket, waiting);
        const struct fetch_result *r = kernel_is_visible(result->object, t->uid) ? result : &hidden;
        inflight_detach(t);
        if (!r->object || inflight_may_answer(r->object, t))
            give_result(e, t, r);
        else
            give_copy(e, t, r);
    }
}

static void deliver_more(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    engine_task_ended(f->engine);
    deliver_some(f, f->result);
    if (list_is_empty(&f->tickets))
        inflight_destroy(f);
    else
        engine_later(f->engine, f->uid, &f->task);
}

static bool deliver_later(struct inflight *f, const struct fetch_result *result)
{
    f->result = malloc(sizeof(*f->result));
    if (!f->result)
        return false;
    *f->result = *result;
    f->task = (struct task){ .done = deliver_more };
    engine_later(f->engine, f->uid, &f->task);
    return true;
}

static void deliver_result(struct inflight *f, const struct fetch_result *result)
{
    inflight_leave_table(f);
    f->stage = DELIVERING;
    deliver_some(f, result);
    if (!list_is_empty(&f->tickets) && deliver_later(f, result))
        return;
    while (!list_is_empty(&f->tickets))
        deliver_some(f, result);
    inflight_destroy(f);
}

void inflight_deliver_failure(struct inflight *f, const struct kiln_err *err, const char *log)
{
    struct fetch_result result = {
        .err = *err, .key = f->asked, .log = log, .reason = reason_of(f, err->code)
    };
    deliver_result(f, &result);
}

/* Puts the object into the hot set. Does nothing if kernels were removed from the hot set during
 * the look-up: the kernel that was looked up may be one of these. */
static void keep_hot(struct inflight *f, const struct digest *key)
{
    if (f->no_cache || f->generation != hot_set_generation(f->engine->hot))
        return;
    if (f->original)
        hot_set_insert_copy(f->engine->hot, key, f->object);
    else
        hot_set_insert(f->engine->hot, key, f->object);
}

void inflight_deliver_object(struct inflight *f, enum tier tier)
{
    struct fetch_result result = {
        .tier = tier, .key = f->asked, .object = f->object, .reason = reason_of(f, KILN_OK)
    };
    if (tier != TIER_COMPILED && tier != TIER_HOT)
        inflight_label_object(f);
    if (f->lookup.has_shared_key && !f->object->is_private) {
        f->object->is_named = true;
        f->object->owner = (uint32_t)f->uid;
    }
    keep_hot(f, &f->asked);
    if (f->lookup.is_shared)
        recency_touch(f->engine, &f->lookup.shared_key);
    deliver_result(f, &result);
}

void inflight_deliver_packaged(struct inflight *f)
{
    const struct fetch_result result = { .tier = TIER_PACKAGE,
                                         .key = kernel_name_packaged(&f->name_key->name),
                                         .object = f->object };
    inflight_label_object(f);
    keep_hot(f, &result.key);
    deliver_result(f, &result);
}
