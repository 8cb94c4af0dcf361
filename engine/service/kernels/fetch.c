/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/fetch.h"

#include "common/base/clock.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/kernels/inflight_compile.h"
#include "engine/service/kernels/inflight_copy.h"
#include "engine/service/kernels/inflight_deliver.h"
#include "engine/service/kernels/inflight_lookup.h"
#include "engine/service/kernels/store_tasks.h"

static bool answer_failure(struct engine *e, const struct fetch_ticket *ticket,
                           struct fetch_result *ret_result, const struct digest *key,
                           const struct kiln_err *err)
{
    *ret_result = (struct fetch_result){ .err = *err, .key = *key, .reason = MISS_REFUSED };
    inflight_count_result(e, ret_result, ticket);
    return true;
}

static bool answer_cached_failure(struct engine *e, const struct digest *key,
                                  const struct fetch_ticket *ticket,
                                  struct fetch_result *ret_result)
{
    struct failure failure;
    if (!failure_memory_find(e->failures, key, ticket->uid, ticket->began_ns, &failure))
        return false;
    *ret_result = (struct fetch_result){
        .err = failure.err, .key = *key, .log = failure.log, .reason = MISS_REMEMBERED
    };
    e->stats.remembered_failures++;
    inflight_count_result(e, ret_result, ticket);
    return true;
}

static enum kiln_code copy_inputs(struct inflight *f, const struct fetch_options *options,
                                  uid_t uid, struct kiln_err *err)
{
    struct engine *e = f->engine;
    enum kiln_code rc = KILN_OK;
    if (options->job && !f->source)
        rc = source_copy(e, uid, options, &f->source, err);
    if (!rc && options->name && !f->name_key)
        rc = name_key_copy(e, uid, options->name, &f->name_key, err);
    if (!rc && options->shared_key) {
        f->lookup.has_shared_key = true;
        f->lookup.shared_key = *options->shared_key;
    }
    return rc;
}

/* Adds the ticket to |f|. If the look-up of |f| still runs, also copies the fetch's compile input
 * to |f|, which needs it after a miss. Copies nothing else: the look-up, on a work queue, may read
 * the other members of |f|. */
static enum kiln_code join_inflight(struct inflight *f, const struct fetch_options *options,
                                    struct fetch_ticket *ticket, struct kiln_err *err)
{
    const struct fetch_options source = { .job = options->job, .tc = options->tc };
    if (f->stage == LOOKING) {
        enum kiln_code rc = copy_inputs(f, &source, ticket->uid, err);
        if (rc)
            return rc;
    }
    inflight_join_queue(f, ticket);
    return KILN_OK;
}

static enum kiln_code begin_inflight(struct inflight *f, const struct fetch_options *options,
                                     uid_t uid, struct kiln_err *err)
{
    f->no_cache = options->no_cache;
    enum kiln_code rc = copy_inputs(f, options, uid, err);
    if (rc)
        return rc;
    if (f->no_cache)
        return inflight_submit(f, err); /* not in the table, so no other fetch can join it */
    struct digest place = inflight_place(&f->asked, options);
    inflight_enter_table(f, &place);
    inflight_look_up(f);
    return KILN_OK;
}

static enum kiln_code start_inflight(struct engine *e, const struct digest *key,
                                     const struct fetch_options *options,
                                     struct fetch_ticket *ticket, struct kiln_err *err)
{
    struct inflight *f;
    enum kiln_code rc = inflight_create(e, key, ticket, &f, err);
    if (rc)
        return rc;
    inflight_attach(f, ticket);
    rc = begin_inflight(f, options, ticket->uid, err);
    if (!rc)
        return KILN_OK;
    inflight_detach(ticket);
    inflight_destroy(f);
    return rc;
}

/* Returns the hot object that would answer the fetch, but was given to another user. Returns NULL
 * if there is none. */
static struct object *find_original(struct engine *e, const struct digest *key,
                                    const struct fetch_options *options,
                                    const struct fetch_ticket *ticket, struct digest *ret_key)
{
    const struct hot_lookup lookup = { .key = key, .name = options->name, .uid = ticket->uid };
    return options->no_cache ? NULL : kernel_lookup_hot(e->hot, hot_set_peek, &lookup, ret_key);
}

static enum kiln_code join_or_start(struct engine *e, const struct digest *key,
                                    const struct fetch_options *options,
                                    struct fetch_ticket *ticket, struct kiln_err *err)
{
    struct digest hot_key;
    struct object *original = find_original(e, key, options, ticket, &hot_key);
    if (original)
        return inflight_copy(e, &hot_key, original, ticket, err);
    struct digest place = inflight_place(key, options);
    struct inflight *f = options->no_cache ? NULL : inflight_find(e, &place);
    return f ? join_inflight(f, options, ticket, err)
             : start_inflight(e, key, options, ticket, err);
}

static bool answer_from_hot_set(struct engine *e, const struct digest *key,
                                const struct fetch_options *options,
                                const struct fetch_ticket *ticket, struct fetch_result *ret_result)
{
    struct digest hot_key;
    if (options->no_cache)
        return false;
    const struct hot_lookup lookup = { .key = key, .name = options->name, .uid = ticket->uid };
    struct object *object = kernel_lookup_hot(e->hot, hot_set_find, &lookup, &hot_key);
    if (object && !inflight_may_answer(object, ticket))
        object = hot_set_find_copy(e->hot, &hot_key, (uint32_t)ticket->uid);
    if (!object)
        return false;
    *ret_result = (struct fetch_result){ .tier = TIER_HOT, .key = hot_key, .object = object };
    if (!ticket->is_rtc)
        metrics_hot_ends(&e->metrics, ticket->began_ns);
    inflight_count_hit(e, ret_result, ticket);
    if (options->shared_key)
        recency_touch(e, options->shared_key);
    return true;
}

bool fetch_at_hand(struct engine *e, const struct fetch_options *options,
                   struct fetch_ticket *ticket, struct digest *ret_key,
                   struct fetch_result *ret_result)
{
    e->stats.fetches += !ticket->is_rtc && !ticket->is_trial;
    bool has_key = !options->job || options->job->is_program;
    *ret_key = has_key ? options->key : kernel_key(options->job, &options->tc->identity);
    ticket->began_ns = metrics_hot_begins(&e->metrics);
    if (answer_from_hot_set(e, ret_key, options, ticket, ret_result))
        return true;
    if (!ticket->began_ns)
        ticket->began_ns = clock_monotonic_ns();
    return options->job && !options->no_cache &&
           answer_cached_failure(e, ret_key, ticket, ret_result);
}

bool fetch_start(struct engine *e, const struct fetch_options *options, const struct digest *key,
                 struct fetch_ticket *ticket, struct fetch_result *ret_result)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (join_or_start(e, key, options, ticket, &err))
        return answer_failure(e, ticket, ret_result, key, &err);
    return false;
}

void fetch_refuse(struct engine *e, const struct fetch_ticket *ticket, const struct digest *key,
                  const struct kiln_err *err)
{
    struct fetch_result result;
    (void)answer_failure(e, ticket, &result, key, err);
}

bool fetch_begin(struct engine *e, const struct fetch_options *options, struct fetch_ticket *ticket,
                 struct fetch_result *ret_result)
{
    struct digest key;
    return fetch_at_hand(e, options, ticket, &key, ret_result) ||
           fetch_start(e, options, &key, ticket, ret_result);
}

void fetch_cancel(struct engine *e, struct fetch_ticket *ticket)
{
    struct inflight *f = ticket->inflight;
    if (!f)
        return;
    inflight_detach(ticket);
    e->stats.cancelled += !ticket->is_trial;
    if (!list_is_empty(&f->tickets))
        return;
    if (f->stage == FLEET)
        fleet_tier_forget(f->fleet);
    bool was_waiting = f->stage == FLEET ||
                       (f->stage == LOOKING && engine_cancel(e, WORK_QUEUE_READ, &f->task)) ||
                       (f->stage == QUEUED && compile_queue_cancel(e->queue, &f->order));
    if (was_waiting)
        inflight_destroy(f);
    else
        compile_queue_set_abandoned(e->queue, &f->order, true);
}
