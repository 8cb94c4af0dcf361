/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/fetch.h"

#include "common/clock.h"
#include "engine/compile/kernel_key.h"
#include "engine/service/kernels/inflight_compile.h"
#include "engine/service/kernels/inflight_deliver.h"
#include "engine/service/kernels/inflight_look.h"
#include "engine/service/kernels/store_tasks.h"

static bool answer_failure(struct engine *e, const struct fetch_ticket *ticket,
                           struct fetch_result *ret_result, const struct digest *key,
                           const struct kiln_err *err)
{
    *ret_result = (struct fetch_result){ .err = *err, .key = *key, .reason = MISS_REFUSED };
    inflight_count_result(e, ret_result, ticket);
    return true;
}

static bool answer_remembered(struct engine *e, const struct digest *key,
                              const struct fetch_ticket *ticket, struct fetch_result *ret_result)
{
    struct failure failure;
    if (!failure_memory_find(e->failures, key, ticket->began_ns, &failure))
        return false;
    *ret_result = (struct fetch_result){
        .err = failure.err, .key = *key, .log = failure.log, .reason = MISS_REMEMBERED
    };
    e->stats.remembered_failures++;
    inflight_count_result(e, ret_result, ticket);
    return true;
}

/* Copies the inputs of |want| that the in-flight request lacks. */
static enum kiln_code equip(struct inflight *f, const struct fetch_want *want, uid_t uid,
                            struct kiln_err *err)
{
    struct engine *e = f->engine;
    enum kiln_code rc = KILN_OK;
    if (want->job && !f->source)
        rc = source_copy(e, uid, want->job, want->tc, &f->source, err);
    if (!rc && want->name && !f->name_key)
        rc = name_key_copy(e, uid, want->name, &f->name_key, err);
    if (!rc && want->shared_key) {
        f->look.has_shared_key = true;
        f->look.shared_key = *want->shared_key;
    }
    return rc;
}

/* Joins an in-flight request for this kernel. During its look-up on a work queue only the source
 * may be added, because the look-up does not read it. */
static enum kiln_code join(struct inflight *f, const struct fetch_want *want,
                           struct fetch_ticket *ticket, struct kiln_err *err)
{
    const struct fetch_want source = { .job = want->job, .tc = want->tc };
    if (f->stage == LOOKING) {
        enum kiln_code rc = equip(f, &source, ticket->uid, err);
        if (rc)
            return rc;
    }
    inflight_join_queue(f, ticket);
    return KILN_OK;
}

static enum kiln_code begin_inflight(struct inflight *f, const struct fetch_want *want, uid_t uid,
                                     struct kiln_err *err)
{
    f->no_cache = want->no_cache;
    enum kiln_code rc = equip(f, want, uid, err);
    if (rc)
        return rc;
    if (f->no_cache)
        return inflight_submit(f, err); /* never in the table, so no other fetch joins it */
    struct digest place = inflight_place(&f->asked, want);
    inflight_enter_table(f, &place);
    inflight_look(f);
    return KILN_OK;
}

static enum kiln_code start(struct engine *e, const struct digest *key,
                            const struct fetch_want *want, struct fetch_ticket *ticket,
                            struct kiln_err *err)
{
    struct inflight *f = inflight_create(e, key, ticket);
    if (!f)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot look up a kernel");
    inflight_attach(f, ticket);
    enum kiln_code rc = begin_inflight(f, want, ticket->uid, err);
    if (!rc)
        return KILN_OK;
    inflight_detach(ticket);
    inflight_destroy(f);
    return rc;
}

static enum kiln_code join_or_start(struct engine *e, const struct digest *key,
                                    const struct fetch_want *want, struct fetch_ticket *ticket,
                                    struct kiln_err *err)
{
    struct digest place = inflight_place(key, want);
    struct inflight *f = want->no_cache ? NULL : inflight_find(e, &place);
    return f ? join(f, want, ticket, err) : start(e, key, want, ticket, err);
}

static bool answer_from_hot_set(struct engine *e, const struct digest *key,
                                const struct fetch_want *want, const struct fetch_ticket *ticket,
                                struct fetch_result *ret_result)
{
    struct digest hot_key;
    if (want->no_cache)
        return false;
    const struct hot_lookup lookup = { .key = key, .name = want->name, .uid = ticket->uid };
    struct object *object = kernel_lookup_hot(e->hot, hot_set_find, &lookup, &hot_key);
    if (!object)
        return false;
    *ret_result = (struct fetch_result){ .tier = TIER_HOT, .key = hot_key, .object = object };
    figures_hot_ends(&e->figures, ticket->began_ns);
    inflight_count_hit(e, ret_result, ticket);
    if (want->shared_key)
        recency_touch(e, want->shared_key); /* the hot object may be stored under this key */
    return true;
}

bool fetch_at_hand(struct engine *e, const struct fetch_want *want, struct fetch_ticket *ticket,
                   struct digest *ret_key, struct fetch_result *ret_result)
{
    e->stats.fetches++;
    *ret_key = want->job ? kernel_key(want->job, &want->tc->identity) : want->key;
    ticket->began_ns = figures_hot_begins(&e->figures);
    if (answer_from_hot_set(e, ret_key, want, ticket, ret_result))
        return true;
    if (!ticket->began_ns)
        ticket->began_ns = clock_monotonic_ns();
    return want->job && !want->no_cache && answer_remembered(e, ret_key, ticket, ret_result);
}

bool fetch_start(struct engine *e, const struct fetch_want *want, const struct digest *key,
                 struct fetch_ticket *ticket, struct fetch_result *ret_result)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (join_or_start(e, key, want, ticket, &err))
        return answer_failure(e, ticket, ret_result, key, &err);
    return false;
}

bool fetch_begin(struct engine *e, const struct fetch_want *want, struct fetch_ticket *ticket,
                 struct fetch_result *ret_result)
{
    struct digest key;
    return fetch_at_hand(e, want, ticket, &key, ret_result) ||
           fetch_start(e, want, &key, ticket, ret_result);
}

void fetch_cancel(struct engine *e, struct fetch_ticket *ticket)
{
    struct inflight *f = ticket->inflight;
    if (!f)
        return;
    inflight_detach(ticket);
    e->stats.cancelled++;
    if (f->tickets || f->stage != QUEUED)
        return;
    if (compile_queue_cancel(e->queue, &f->order))
        inflight_destroy(f);
}
