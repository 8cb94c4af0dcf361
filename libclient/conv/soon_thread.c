/* SPDX-License-Identifier: MIT */
/*
 * The thread of KILN_FIND_SOON: finds and tunes the watched problems, takes plans that other
 * processes have measured, and publishes each better plan.
 */
#include "libclient/conv/soon_parts.h"

#include "common/base/clock.h"
#include "libclient/connection/multiplexer.h"
#include "libclient/device/device.h"

#include <string.h>

/* A find or tune that failed because kilnd was overloaded or absent is tried again, up to
 * ATTEMPTS_MAX times in all. */
#define ATTEMPTS_MAX 3u
#define RETRY_NS 1000000000ull
/* Time limit of a tune, without rests, if the job sets none.  kiln_conv_tune's limit of 60 s would
 * become 20 minutes at the default pace, for which the other problems would have to wait. */
#define TUNE_MS 2000
/* How often a thread whose problems are all found by other processes asks for their leases. */
#define POSTPONED_NS 250000000ull
/* The name under which a find is leased, in place of a solver's. */
#define FIND_LEASE "find"

/* ---- the next problem ---- */

/* Returns an estimate of the time that a step of the job spends on the problem.  Its unit depends
 * on the stage, so only estimates of problems in the same stage can be compared. */
static double cost_of(const struct soon_watch *w)
{
    return w->finds * (w->stage == STAGE_FIND ? problem_flops(&w->wire) : w->found_ms);
}

static bool comes_before(const struct soon_watch *a, const struct soon_watch *b)
{
    if (a->stage != b->stage)
        return a->stage < b->stage;
    if (a->is_postponed != b->is_postponed)
        return b->is_postponed;
    return cost_of(a) > cost_of(b);
}

/* Returns the watched problem to measure next, or NULL if there is none.  A find gains more than a
 * tune, so every problem is found before the first one is tuned.  In both stages, the problems on
 * which the job spends most time come first. */
static struct soon_watch *choose_watch(const struct soon *s)
{
    struct soon_watch *best = NULL;
    if (s->pace.ms_per_s == 0)
        return NULL;
    LIST_EACH (&s->watches, struct soon_watch, link, w) {
        if (w->stage != STAGE_TUNED && (!best || comes_before(w, best)))
            best = w;
    }
    return best;
}

/* Waits until the next look at the counter, or until there is another problem.  The caller holds
 * the lock. */
static void wait_idle(struct soon *s)
{
    uint64_t until = clock_monotonic_ns() + follow_idle_ns(&s->follow);
    const struct timespec end = { .tv_sec = (time_t)(until / 1000000000u),
                                  .tv_nsec = (long)(until % 1000000000u) };
    (void)pthread_cond_timedwait(&s->changed, &s->mutex, &end);
}

/* Returns NULL, after a wait, if there is nothing to measure. */
static struct soon_watch *next_watch(struct soon *s, struct kiln_plan **ret_incumbent,
                                     enum stage *ret_stage)
{
    pthread_mutex_lock(&s->mutex);
    struct soon_watch *w = choose_watch(s);
    if (!w && !pace_is_stopped(&s->pace))
        wait_idle(s);
    if (w) {
        *ret_incumbent = kiln_plan_ref(w->plan);
        *ret_stage = w->stage;
    }
    pthread_mutex_unlock(&s->mutex);
    return w;
}

static bool is_same_plan(const struct kiln_plan *a, const struct kiln_plan *b)
{
    return strcmp(kiln_plan_solver(a), kiln_plan_solver(b)) == 0 &&
           strcmp(kiln_plan_config(a), kiln_plan_config(b)) == 0;
}

void soon_publish(struct soon_watch *watch, struct kiln_plan *plan,
                  const struct kiln_plan *incumbent, enum stage next)
{
    struct soon_watch *w = watch;
    struct soon *s = w->soon;
    struct kiln_plan *old = NULL;
    pthread_mutex_lock(&s->mutex);
    bool is_new = plan && w->plan == incumbent && !is_same_plan(plan, w->plan);
    if (is_new) {
        old = w->plan;
        w->plan = kiln_plan_ref(plan);
    }
    bool is_tuned = next == STAGE_TUNED && w->stage != STAGE_TUNED;
    w->stage = next;
    if (is_new || is_tuned)
        atomic_fetch_add(&s->generation, 1);
    pthread_mutex_unlock(&s->mutex);
    kiln_plan_unref(old);
}

/* ---- plans of other processes ---- */

/* Returns whether the job uses the same records as other processes of the user. */
static bool has_common_records(const struct soon_watch *w)
{
    const struct kiln_conv_options *o = &w->options;
    return !o->no_record && o->tier == KILN_TUNING_USER && !o->toolchain && !o->solver &&
           kiln_device_database_id(o->device)[0];
}

/* Returns whether other processes of the user can use the measurements of a find. */
static bool is_shared(const struct soon_watch *w, const struct kiln_plan *incumbent)
{
    return has_common_records(w) && kiln_plan_source(incumbent) != KILN_PLAN_NEAREST;
}

/* Returns whether the job can take the result of a tune from the records. */
static bool follows_tune(const struct soon_watch *w, const struct kiln_plan *incumbent)
{
    return follow_is_possible(&w->soon->follow) && is_shared(w, incumbent);
}

static void mark_outdated(struct soon *s)
{
    pthread_mutex_lock(&s->mutex);
    LIST_EACH (&s->watches, struct soon_watch, link, w)
        w->is_outdated = true;
    pthread_mutex_unlock(&s->mutex);
}

/* Returns the first outdated problem after |before|, or the first of all if |before| is NULL. */
static struct soon_watch *next_outdated(struct soon *s, struct soon_watch *before,
                                        struct kiln_plan **ret_incumbent, enum stage *ret_stage)
{
    struct soon_watch *found = NULL;
    pthread_mutex_lock(&s->mutex);
    struct list_link *at = before ? before->link.next : s->watches.head.next;
    for (; !found && at != &s->watches.head; at = at->next) {
        struct soon_watch *w = LIST_ENTRY(at, struct soon_watch, link);
        found = w->is_outdated ? w : NULL;
    }
    if (found) {
        found->is_outdated = false;
        *ret_incumbent = kiln_plan_ref(found->plan);
        *ret_stage = found->stage;
    }
    pthread_mutex_unlock(&s->mutex);
    return found;
}

static void compare_plan(struct soon_watch *w, struct kiln_plan *incumbent, enum stage stage)
{
    const struct follow *follow = &w->soon->follow;
    const struct follow_question question = {
        .problem = &w->problem, .wire = &w->wire, .options = &w->options, .incumbent = incumbent
    };
    struct kiln_plan *plan = has_common_records(w) ? follow_ask(follow, &question) : NULL;
    soon_publish(w, plan, incumbent, stage);
    kiln_plan_unref(plan);
}

/* Takes plans that other processes have measured, if records have changed. */
static void follow_records(struct soon *s)
{
    struct soon_watch *w = NULL;
    struct kiln_plan *incumbent = NULL;
    enum stage stage;
    bool has_changed = follow_has_changed(&s->follow);
    if (!follow_is_possible(&s->follow))
        return;
    if (has_changed)
        mark_outdated(s);
    while (!pace_is_stopped(&s->pace) && (w = next_outdated(s, w, &incumbent, &stage))) {
        compare_plan(w, incumbent, stage);
        kiln_plan_unref(incumbent);
    }
    if (has_changed)
        follow_rest(&s->follow);
}

/* ---- measuring ---- */

/* Runs on the thread, after each trial.  A tune may take many minutes. */
static int report_trial(void *context, const struct kiln_conv_progress *progress)
{
    struct soon *s = context;
    (void)progress;
    follow_records(s);
    return pace_is_stopped(&s->pace);
}

static void leave_search_to_tune(struct kiln_conv_options *options)
{
    options->budget_ms = 0;
    if (options->enforce == KILN_ENFORCE_SEARCH)
        options->enforce = KILN_ENFORCE_NONE;
    if (options->enforce == KILN_ENFORCE_SEARCH_DB_UPDATE)
        options->enforce = KILN_ENFORCE_DB_UPDATE;
}

static enum kiln_code run_stage(struct soon_watch *w, enum stage stage, struct kiln_plan *incumbent,
                                struct kiln_conv_result **ret_result, struct kiln_err *err)
{
    struct kiln_conv_options options = w->options;
    const struct work given = { .client = w->soon->client,
                                .public_problem = &w->problem,
                                .pace = &w->soon->pace,
                                .incumbent = incumbent,
                                .follows = follows_tune(w, incumbent) };
    if (options.device->ops->relax_captures)
        options.device->ops->relax_captures(options.device);
    enum kiln_code rc = stream_create_apart(options.device, &options.stream, err);
    if (rc)
        return rc;
    options.reported = report_trial;
    options.context = w->soon;
    if (stage == STAGE_TUNE && !options.budget_ms)
        options.budget_ms = TUNE_MS;
    if (stage == STAGE_FIND)
        leave_search_to_tune(&options);
    /* Records that others make now do not contain a similar problem's plan, so measure it. */
    if (kiln_plan_source(incumbent) == KILN_PLAN_NEAREST)
        options.mode = KILN_FIND_NORMAL;
    rc = work_run(&given, &options, stage == STAGE_TUNE, ret_result, err);
    kiln_stream_destroy(options.stream);
    return rc;
}

/* Returns the stage after |stage| ended with |rc|.  No stage follows a lost device. */
static enum stage stage_after(struct soon_watch *w, enum stage stage, enum kiln_code rc)
{
    if (rc != KILN_GPU_FAULT && kiln_code_is_retryable(rc) && ++w->attempts < ATTEMPTS_MAX) {
        pace_wait(&w->soon->pace, RETRY_NS);
        return stage;
    }
    w->attempts = 0;
    return rc == KILN_GPU_FAULT ? STAGE_TUNED : stage + 1;
}

/* Compares the plan with the records of the tune that just ended, so that a job which refreshes
 * until its plan is tuned gets the result. */
static void take_tuned(struct soon_watch *w)
{
    struct soon *s = w->soon;
    pthread_mutex_lock(&s->mutex);
    struct kiln_plan *incumbent = kiln_plan_ref(w->plan);
    pthread_mutex_unlock(&s->mutex);
    if (follow_is_possible(&s->follow))
        compare_plan(w, incumbent, STAGE_TUNE);
    kiln_plan_unref(incumbent);
}

static double fastest_ms(const struct kiln_conv_result *result)
{
    struct kiln_error unused;
    struct kiln_conv_entry fastest = { .size = sizeof(fastest) };
    return kiln_conv_result_entry(result, 0, &fastest, &unused) ? 0 : fastest.median_ms;
}

static void improve(struct soon_watch *w, enum stage stage, struct kiln_plan *incumbent)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct kiln_conv_result *result = NULL;
    enum kiln_code rc = run_stage(w, stage, incumbent, &result, &err);
    enum stage next = stage_after(w, stage, rc);
    if (stage == STAGE_FIND && result)
        w->found_ms = fastest_ms(result);
    if (stage == STAGE_TUNE)
        take_tuned(w);
    soon_publish(w, result ? kiln_conv_result_plan(result) : NULL, incumbent, next);
    kiln_conv_result_free(result);
}

/* ---- sharing finds ---- */

/* Requests the right to find the problem.  Returns false if another process has it.  If kilnd does
 * not grant leases, this process finds the problem without one. */
static bool take_find(const struct soon_watch *w, struct kiln_lease *ret_lease)
{
    struct kiln_error unused;
    const struct kiln_lease_request request = { .size = sizeof(request),
                                                .database_id =
                                                    kiln_device_database_id(w->options.device),
                                                .solver = FIND_LEASE,
                                                .share = KILN_SHARE_NONE,
                                                .timeout_ms = w->options.timeout_ms };
    int rc = kiln_lease_take(w->soon->client, &w->problem, &request, ret_lease, &unused);
    if (rc)
        ret_lease->state = KILN_LEASE_DONE;
    return ret_lease->state != KILN_LEASE_TAKEN;
}

/* Ends the lease.  The measurements are recorded already, so that the report has none. */
static void end_find(const struct soon_watch *w, const struct kiln_lease *lease)
{
    struct kiln_error unused;
    struct kiln_lease next = { .size = sizeof(next) };
    if (lease->state == KILN_LEASE_GRANTED)
        (void)kiln_lease_report(w->soon->client, lease, NULL, &next, &unused);
}

static void resume_all(struct soon *s)
{
    pthread_mutex_lock(&s->mutex);
    LIST_EACH (&s->watches, struct soon_watch, link, w)
        w->is_postponed = false;
    pthread_mutex_unlock(&s->mutex);
}

/* Finds a problem, unless another process of the user does.  The thread then continues with other
 * problems, and uses the records of that process later. */
static void find_shared(struct soon_watch *w, struct kiln_plan *incumbent)
{
    struct kiln_lease lease = { .size = sizeof(lease), .state = KILN_LEASE_DONE };
    if (w->is_postponed) { /* and so is every other problem that was not found yet */
        pace_wait(&w->soon->pace, POSTPONED_NS);
        resume_all(w->soon);
    } else if (is_shared(w, incumbent) && !take_find(w, &lease)) {
        w->is_postponed = true;
    } else {
        improve(w, STAGE_FIND, incumbent);
        end_find(w, &lease);
    }
}

void *soon_improve_plans(void *context)
{
    struct soon *s = context;
    struct kiln_plan *incumbent = NULL;
    struct soon_watch *w;
    enum stage stage;
    multiplexer_stop_with(&s->pace.is_stopped);
    while (!pace_is_stopped(&s->pace)) {
        follow_records(s);
        if (soon_replace_generic(s))
            continue;
        w = next_watch(s, &incumbent, &stage);
        if (w && stage == STAGE_FIND)
            find_shared(w, incumbent);
        else if (w)
            improve(w, stage, incumbent);
        kiln_plan_unref(KILN_TAKE(incumbent));
    }
    return NULL;
}
