/* SPDX-License-Identifier: MIT */
/*
 * Replaces generic plans (docs/decisions/0025-generic-kernels.md).  The thread requests the plans
 * for which they stand in all at once, so that kilnd compiles the kernels in parallel, and
 * publishes each plan as it arrives.  These plans are not measured: without generic kernels, the
 * job would have waited for them.
 */
#include "libclient/conv/soon_parts.h"

#include "libclient/conv/loadable.h"
#include "libclient/device/device.h"

#include <kiln/device.h>
#include <stdlib.h>

/* A problem is requested until so many batches with it have brought no plan at all.  A batch that
 * brings some plans counts as no attempt, because kilnd may need longer than the time limit of one
 * batch to compile for a large network. */
#define ATTEMPTS_MAX 3u
#define RETRY_NS 1000000000ull

struct replacements {
    struct soon *soon;
    struct soon_watch **watches;
    struct kiln_plan **incumbents; /* references */
    struct kiln_problem *problems;
    size_t count;
    struct kiln_plan_options options;
    bool has_published; /* at least one plan */
    bool shall_wait;    /* kilnd was overloaded */
};

static void replacements_done(struct replacements *r)
{
    for (size_t i = 0; i < r->count; i++)
        kiln_plan_unref(r->incumbents[i]);
    free(r->watches);
    free(r->incumbents);
    free(r->problems);
}

static bool is_due(const struct soon_watch *w)
{
    return kiln_plan_source(w->plan) == KILN_PLAN_GENERIC && w->replacements < ATTEMPTS_MAX;
}

/* Returns whether one request may have both problems. */
static bool is_same_request(const struct soon_watch *a, const struct soon_watch *b)
{
    return a->by_heuristic == b->by_heuristic && soon_is_same_work(&a->options, &b->options);
}

static void add_watch(struct replacements *r, struct soon_watch *w)
{
    r->watches[r->count] = w;
    r->incumbents[r->count] = kiln_plan_ref(w->plan);
    r->problems[r->count++] = w->problem;
}

/* Adds the first watched problem whose plan must be replaced, and all others that can be in the
 * same request.  The caller holds the lock. */
static void collect(struct replacements *r)
{
    struct soon *s = r->soon;
    r->watches = calloc(s->count, sizeof(*r->watches));
    r->incumbents = calloc(s->count, sizeof(struct kiln_plan *));
    r->problems = calloc(s->count, sizeof(*r->problems));
    if (!r->watches || !r->incumbents || !r->problems)
        return;
    LIST_EACH (&s->watches, struct soon_watch, link, w) {
        if (is_due(w) && (r->count == 0 || is_same_request(r->watches[0], w)))
            add_watch(r, w);
    }
}

/* The job must not exchange a plan that works for one that its driver refuses. */
static int take_plan(void *context, size_t index, struct kiln_plan *plan,
                     const struct kiln_error *err)
{
    struct replacements *r = context;
    struct soon_watch *w = r->watches[index];
    struct kiln_err ignored = KILN_ERR_INIT;
    struct kiln_plan *loadable = plan ? kiln_plan_ref(plan) : NULL;
    const struct loadable_request request = { .client = r->soon->client,
                                              .device = w->options.device,
                                              .problem = &w->problem,
                                              .options = &r->options };
    enum kiln_code code =
        err ? (enum kiln_code)err->code : loadable_plan_check(&request, &loadable, &ignored);
    if (!code) {
        soon_publish(w, loadable, r->incumbents[index], w->stage);
        r->has_published |= kiln_plan_source(loadable) != KILN_PLAN_GENERIC;
    } else if (kiln_code_is_retryable(code)) {
        r->shall_wait = true;
    } else if (code == KILN_COMPILE_FAILED && !w->by_heuristic) {
        w->by_heuristic = true;
    } else {
        w->replacements = ATTEMPTS_MAX;
    }
    kiln_plan_unref(loadable);
    return pace_is_stopped(&r->soon->pace);
}

static void request_plans(struct replacements *r)
{
    struct kiln_error ignored;
    const struct soon_watch *first = r->watches[0];
    const struct kiln_conv_options *o = &first->options;
    const char *id = kiln_device_database_id(o->device), *driver = kiln_device_driver(o->device);
    r->options = (struct kiln_plan_options){
        .size = sizeof(r->options),
        .target = kiln_device_target(o->device),
        .database_id = id[0] ? id : NULL,
        .driver = driver[0] ? driver : NULL,
        .toolchain = o->toolchain,
        .priority = KILN_PREFETCH,
        .nearest = 1,
        .heuristic = first->by_heuristic || o->enforce == KILN_ENFORCE_DB_CLEAN,
        .timeout_ms = o->timeout_ms,
        .no_packages = atomic_load(&o->device->refuses_packages),
    };
    const struct kiln_plan_batch batch = { .size = sizeof(batch),
                                           .problems = r->problems,
                                           .count = r->count,
                                           .options = &r->options,
                                           .ready = take_plan,
                                           .context = r };
    int rc = kiln_plan_batch(r->soon->client, &batch, &ignored);
    for (size_t i = 0; i < r->count && !r->has_published; i++)
        r->watches[i]->replacements++;
    if (rc || r->shall_wait)
        pace_wait(&r->soon->pace, RETRY_NS);
}

bool soon_replace_generic(struct soon *soon)
{
    __attribute__((cleanup(replacements_done))) struct replacements r = { .soon = soon };
    pthread_mutex_lock(&soon->mutex);
    collect(&r);
    pthread_mutex_unlock(&soon->mutex);
    if (r.count > 0)
        request_plans(&r);
    return r.count > 0;
}
