/* SPDX-License-Identifier: MIT */
/*
 * Find compiles the kernels of all applicable solvers in one batch, then times one solver after the
 * other.  For find and tune, this file also records the measurements and builds the result.
 */
#include "libclient/conv/work.h"

#include "libclient/conv/loadable.h"
#include "libclient/conv/soon.h"
#include "libclient/failure.h"

#include <kiln/tuning.h>

#include <stdio.h>
#include <string.h>

/* Limits for timing a solver.  If the first timed run takes more than HOPELESS times as long as the
 * best solver, the solver is not timed further. */
#define SAMPLES 24u
#define TIMED_MS 500.0
#define HOPELESS 3.0
/* If the first samples of a solver all take more than SLOWER times as long as the best solver, find
 * takes no more of them: the exact time of such a solver does not matter. */
#define SLOWER 1.25
#define TUNE_BUDGET_MS 60000
/* The journal's name of the config of a solver that has nothing to tune. */
#define NO_CONFIG "-"

static void set_state(struct work_solver *s, int state, const char *reason)
{
    s->state = state;
    snprintf(s->reason, sizeof(s->reason), "%s", reason);
}

/* ---- plans ---- */

struct batch {
    struct work *work;
    struct plan_window *window;
    struct kiln_plan *reference;
};

static void batch_done(struct batch *b)
{
    kiln_plan_unref(b->reference);
    plan_window_destroy(b->window);
}

/* Replaces a plan whose kernels the driver refuses.  If that fails, keeps the plan: measuring it
 * reports why it does not load. */
static void ensure_loadable(struct work *work, const char *solver, struct kiln_plan **plan)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct kiln_plan_options options = work_plan_options(work, solver, NULL);
    const struct loadable_request request = { .client = work->client,
                                              .device = work->device,
                                              .problem = work->public_problem,
                                              .options = &options };
    options.no_packages = 0; /* this plan may have been requested before packages were given up */
    if (*plan)
        (void)loadable_plan_check(&request, plan, &ignored);
}

static void take_planned(struct batch *b, struct planned *p, const struct failure *why)
{
    struct work *work = b->work;
    bool is_reference = p->tag == work->count;
    struct work_solver *s = is_reference ? NULL : &work->solvers[p->tag];
    ensure_loadable(work, s ? s->solution.solver : BENCH_REFERENCE, &p->plan);
    if (is_reference && p->plan)
        b->reference = kiln_plan_ref(p->plan);
    if (is_reference)
        return;
    if (!p->plan) {
        set_state(s, KILN_CONV_NOT_COMPILED, why->err.text);
        return;
    }
    work_take_plan(s, p->plan);
    snprintf(s->config, sizeof(s->config), "%s", kiln_plan_config(p->plan));
}

static enum kiln_code request_plans(struct batch *b, struct kiln_err *err)
{
    struct work *work = b->work;
    enum kiln_code rc =
        plan_window_create(work->client, &work->problem, work->count + 1, &b->window, err);
    for (unsigned i = 0; i <= work->count && !rc; i++) {
        const char *name = i < work->count ? work->solvers[i].solution.solver : BENCH_REFERENCE;
        const struct kiln_plan_options options = work_plan_options(work, name, NULL);
        rc = plan_window_ask(b->window, &options, i, err);
    }
    return rc;
}

static bool has_any_plan(const struct work *work)
{
    for (unsigned i = 0; i < work->count; i++) {
        if (work->solvers[i].plan)
            return true;
    }
    return false;
}

/* Continues without the reference solver, because a program with built-in kernels may lack the
 * kernels of this solver.  The call then times the kernels that the program has, but records
 * nothing. */
static enum kiln_code accept_unchecked(struct work *work, const struct kiln_err *why,
                                       struct kiln_err *err)
{
    if (!has_any_plan(work))
        return kiln_fail(err, why->code, "the program has no kernels for this problem: %s",
                         why->text);
    kiln_fail(&work->unchecked, why->code,
              "its result was not compared, because the reference is missing: %s", why->text);
    return KILN_OK;
}

/* Returns whether the plan of the first solver that compiles is there.  The solvers are in kilnd's
 * order of preference, so plans without measurements would use this solver. */
static bool has_preferred_plan(const struct work *work)
{
    for (unsigned i = 0; i < work->count; i++) {
        const struct work_solver *s = &work->solvers[i];
        if (s->state != KILN_CONV_NOT_COMPILED)
            return s->plan != NULL;
    }
    return false;
}

/* Returns when to stop waiting for plans.  Until the preferred solver can be measured, the time
 * budget does not limit the wait.  Otherwise, a slower solver that compiles sooner would be
 * recorded as the fastest. */
static uint64_t gather_end(const struct batch *b, uint64_t deadline_ns)
{
    bool can_measure = b->reference && has_preferred_plan(b->work);
    uint64_t end_ns = work_real_ns(b->work, b->work->end_ns);
    return can_measure && end_ns < deadline_ns ? end_ns : deadline_ns;
}

static void note_late_plans(struct work *work, bool is_budget, const struct kiln_err *why)
{
    for (unsigned i = 0; i < work->count; i++) {
        struct work_solver *s = &work->solvers[i];
        if (s->plan || s->reason[0])
            continue;
        if (is_budget)
            set_state(s, KILN_CONV_UNTIMED, "no time was left to compile it");
        else
            set_state(s, KILN_CONV_NOT_COMPILED, why->text);
    }
}

/* Receives the plans.  A plan that does not arrive in time counts as missing.  Fails if there is no
 * kilnd, or if the plan for the reference solver is missing and accept_unchecked does not apply. */
static enum kiln_code gather_plans(struct batch *b, struct kiln_err *err)
{
    FAILURE_AUTO struct failure why = FAILURE_INIT;
    FAILURE_AUTO struct failure reference = FAILURE_INIT;
    uint64_t deadline = work_deadline(b->work), end = deadline;
    enum kiln_code rc = request_plans(b, err);
    while (!rc) {
        struct planned planned = { .plan = NULL };
        end = gather_end(b, deadline);
        rc = work_next_plan(b->work, b->window, end, &planned, &why);
        if (rc)
            break;
        take_planned(b, &planned, &why);
        if (planned.tag == b->work->count)
            reference.err = why.err;
        kiln_plan_unref(planned.plan);
    }
    if (rc && rc != KILN_NOT_FOUND && rc != KILN_TIMED_OUT)
        return err->code ? rc : kiln_fail(err, rc, "%s", why.err.text);
    if (rc == KILN_TIMED_OUT)
        note_late_plans(b->work, end < deadline, &why.err);
    if (b->reference)
        return KILN_OK;
    const struct kiln_err *last = rc == KILN_TIMED_OUT ? &why.err : &reference.err;
    if (last->code == KILN_NOT_FOUND)
        return accept_unchecked(b->work, last, err);
    return kiln_fail(err, kiln_code_is_retryable(last->code) ? last->code : KILN_UNSUPPORTED,
                     "no plan for the reference, " BENCH_REFERENCE ": %s", last->text);
}

/* ---- timing ---- */

static enum kiln_code handle_failed_run(struct work *work, struct work_solver *s,
                                        const struct kiln_err *why, struct kiln_err *err)
{
    set_state(s, KILN_CONV_NOT_RUN, why->text);
    s->lacked_memory = why->code == KILN_NO_MEMORY;
    if (bench_is_alive(work->bench))
        return KILN_OK;
    return kiln_fail(err, KILN_GPU_FAULT, "the device was lost with %s: %s", s->solution.solver,
                     why->text);
}

static enum kiln_code time_and_check(struct work *work, struct work_solver *s,
                                     struct subject *subject, struct kiln_err *err)
{
    const struct work_solver *best = work_fastest(work);
    const struct timing_limits limits = { .hopeless_ms =
                                              best ? HOPELESS * best->timing.median_ms : 0,
                                          .slower_ms = best ? SLOWER * best->timing.median_ms : 0,
                                          .limit_ms = TIMED_MS,
                                          .samples = SAMPLES };
    struct kiln_err why = KILN_ERR_INIT;
    if (subject_time(subject, &limits, &s->timing, &why))
        return handle_failed_run(work, s, &why, err);
    s->is_measured = true;
    if (s->timing.is_cut_short) {
        set_state(s, KILN_CONV_CUT_SHORT, "much slower than the best");
        return KILN_OK;
    }
    enum kiln_code rc = work->unchecked.code ? KILN_OK : subject_check(subject, &s->checked, &why);
    if (rc && rc != KILN_CORRUPT)
        return handle_failed_run(work, s, &why, err);
    set_state(s, rc ? KILN_CONV_WRONG : KILN_CONV_TIMED, why.text);
    return KILN_OK;
}

/* ---- beside a job ---- */

/* Returns whether an earlier run of the solver with this config failed or ended its process. */
static bool is_known_to_fail(struct journal *journal, const char *config, char reason[512])
{
    struct search search;
    struct kiln_err ignored = KILN_ERR_INIT;
    bool fails = false;
    search_init(&search, /* ops= */ NULL, NULL);
    if (journal && journal_read(journal, &search, &ignored) == KILN_OK) {
        size_t index = search_find(&search, config);
        const struct search_trial *t = index == SIZE_MAX ? NULL : &search.trials[index];
        fails = t && t->place == TRIAL_DONE && t->state == KILN_CONV_NOT_RUN;
        snprintf(reason, 512, "%s", fails && t->reason ? t->reason : "");
    }
    search_done(&search);
    return fails;
}

static enum kiln_code measure_noted(struct work *work, struct work_solver *s,
                                    struct subject *subject, struct journal *journal,
                                    struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    const char *config = s->config[0] ? s->config : NO_CONFIG;
    if (is_known_to_fail(journal, config, s->reason)) {
        s->state = KILN_CONV_NOT_RUN;
        return KILN_OK;
    }
    enum kiln_code rc = work_first_run(work, journal, config, subject, &why)
                            ? handle_failed_run(work, s, &why, err)
                            : time_and_check(work, s, subject, err);
    const struct search_trial trial = { .config = config, .state = s->state, .reason = s->reason };
    if (s->lacked_memory)
        journal_survive(journal, config);
    else if (s->state == KILN_CONV_NOT_RUN && !rc) /* the device was not lost */
        journal_end(journal, &trial);
    return rc;
}

/* Measures a solver, unless the journal says that it fails: a solver that ended a job must not end
 * the next one. */
static enum kiln_code measure_beside_job(struct work *work, struct work_solver *s,
                                         struct subject *subject, struct kiln_err *err)
{
    struct journal *journal;
    enum kiln_code rc = work_open_journal(work, s->solution.solver, &journal, err);
    if (!rc)
        rc = measure_noted(work, s, subject, journal, err);
    journal_close(journal);
    return rc;
}

static enum kiln_code measure_plan(struct work *work, struct work_solver *s, struct kiln_err *err)
{
    struct subject *subject = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    if (subject_create(work->bench, s->plan, work_is_winograd(&s->solution), &subject, &why))
        return handle_failed_run(work, s, &why, err);
    enum kiln_code rc = work->pace ? measure_beside_job(work, s, subject, err)
                                   : time_and_check(work, s, subject, err);
    subject_destroy(subject);
    return rc;
}

static void take_record(struct work_solver *s)
{
    s->state = KILN_CONV_RECORDED;
    s->timing.median_ms = s->solution.best_ms > 0 ? s->solution.best_ms : s->solution.find_ms;
}

static enum kiln_code measure_solver(struct work *work, struct work_solver *s, struct kiln_err *err)
{
    if (!s->plan)
        return KILN_OK;
    if (work->follows && s->solution.find_ms > 0) {
        take_record(s);
        return KILN_OK;
    }
    if (work_has_time(work) || !work_fastest(work))
        return measure_plan(work, s, err);
    set_state(s, KILN_CONV_UNTIMED, "no time was left");
    return KILN_OK;
}

static bool has_run(const struct work_solver *s)
{
    return s->state == KILN_CONV_TIMED || s->state == KILN_CONV_CUT_SHORT ||
           s->state == KILN_CONV_WRONG;
}

/* Returns whether the solver was measured with the plan's config. */
static bool is_measured_with(const struct work_solver *s, const struct kiln_plan *plan)
{
    return has_run(s) && strcmp(s->config, kiln_plan_config(plan)) == 0;
}

static const struct work_solver *find_solver(const struct work *work, const char *name)
{
    for (unsigned i = 0; i < work->count; i++) {
        if (strcmp(work->solvers[i].solution.solver, name) == 0)
            return &work->solvers[i];
    }
    return NULL;
}

/* Returns whether the solver's measurement with the plan's config shows that |best| is faster. */
static bool is_slower(const struct work_solver *s, const struct work_solver *best)
{
    return s->state == KILN_CONV_TIMED ? s->timing.median_ms > best->timing.median_ms : has_run(s);
}

/* Measures the plan that the job uses, unless a solver was measured with its config.  Keeps the
 * plan if no solver is faster, or if it could not be measured.  A generic plan is a stand-in, and
 * is not kept. */
static enum kiln_code judge_incumbent(struct work *work, struct kiln_err *err)
{
    struct kiln_plan *plan = work->incumbent;
    const struct work_solver *best = work_fastest(work);
    const struct work_solver *same = plan ? find_solver(work, kiln_plan_solver(plan)) : NULL;
    if (!plan || !best || kiln_plan_source(plan) == KILN_PLAN_GENERIC ||
        (same && is_measured_with(same, plan)))
        return KILN_OK;
    if (!same) {
        work->result->plan = kiln_plan_ref(plan);
        return KILN_OK;
    }
    struct work_solver *s = malloc(sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to measure the job's plan");
    *s = (struct work_solver){ .solution = same->solution, .plan = plan };
    snprintf(s->config, sizeof(s->config), "%s", kiln_plan_config(plan));
    enum kiln_code rc = measure_plan(work, s, err);
    if (!rc && !is_slower(s, best))
        work->result->plan = kiln_plan_ref(plan);
    free(s);
    return rc;
}

static void report_progress(struct work *work, unsigned done)
{
    const struct work_solver *best = work_fastest(work);
    struct kiln_conv_progress progress = {
        .solver = "",
        .done = done,
        .total = work->count,
        .best_ms = best ? best->timing.median_ms : 0,
        .spent_ms = (double)(work_now(work) - work->start_ns) / 1e6,
        .budget_ms = work->options.budget_ms,
    };
    for (unsigned i = 0; i < done; i++) {
        int state = work->solvers[i].state;
        progress.failed += state >= KILN_CONV_WRONG;
    }
    work_report(work, &progress);
}

static enum kiln_code ensure_bench(struct work *work, struct kiln_err *err)
{
    const struct kiln_conv_options *o = &work->options;
    const struct bench_options options = {
        .device = work->device,
        .problem = &work->problem,
        .given = { [KILN_TENSOR_X] = o->x, [KILN_TENSOR_W] = o->w, [KILN_TENSOR_Y] = o->y },
        .stream = o->stream,
        .pace = work->pace
    };
    return work->bench ? KILN_OK : bench_create(&options, &work->bench, err);
}

static enum kiln_code find_fastest(struct work *work, struct kiln_err *err)
{
    __attribute__((cleanup(batch_done))) struct batch batch = { .work = work };
    enum kiln_code rc = ensure_bench(work, err);
    if (!rc)
        rc = gather_plans(&batch, err);
    if (rc)
        return rc;
    if (batch.reference) {
        snprintf(work->toolchain, sizeof(work->toolchain), "%s",
                 kiln_plan_toolchain_identity(batch.reference));
        rc = bench_refer(work->bench, batch.reference, err);
    }
    for (unsigned i = 0; i < work->count && !rc; i++) {
        rc = measure_solver(work, &work->solvers[i], err);
        report_progress(work, i + 1);
    }
    return rc;
}

/* ---- existing records ---- */

static bool use_records(struct work *work)
{
    bool has_any = false, is_clean = work->options.enforce == KILN_ENFORCE_DB_CLEAN;
    if (work->options.mode == KILN_FIND_NORMAL)
        return false;
    for (unsigned i = 0; i < work->count; i++) {
        struct work_solver *s = &work->solvers[i];
        if (is_clean || !(s->solution.find_ms > 0))
            continue;
        take_record(s);
        has_any = true;
    }
    return has_any || work->options.mode == KILN_FIND_FAST;
}

static enum kiln_code get_current_plan(struct work *work, struct kiln_err *err)
{
    const struct kiln_plan_options options = work_plan_options(work, work->options.solver, NULL);
    return work_get_plan(work, &options, err);
}

/* ---- recording and the result ---- */

static enum kiln_code record_solver(const struct work *work, const struct work_solver *s,
                                    struct kiln_err *err)
{
    struct kiln_error e;
    const struct kiln_measurement m = { .size = sizeof(m),
                                        .solver = s->solution.solver,
                                        .algorithm = s->solution.algorithm,
                                        .params = s->config,
                                        .workspace = kiln_plan_workspace(s->plan),
                                        .samples = s->timing.samples,
                                        .median_ms = s->timing.median_ms,
                                        .spread_ms = s->timing.spread_ms };
    const struct kiln_recording recording = work_recording(work, s->plan, &m);
    if (!recording.database_id[0])
        return kiln_fail(err, KILN_UNSUPPORTED, "%s (%s) has no database id to record under",
                         kiln_device_name(work->device), kiln_device_target(work->device));
    int rc = kiln_find_put(work->client, work->public_problem, &recording, &e);
    if (!rc && s->is_tuned)
        rc = kiln_perf_put(work->client, work->public_problem, &recording, &e);
    return error_take(rc, &e, err)
               ? kiln_while(err, "recording the measurement of %s", s->solution.solver)
               : KILN_OK;
}

/* Records the measured solvers.  For a solver that was cut short, records the time of its single
 * run. */
static enum kiln_code record_solvers(const struct work *work, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (work->options.no_record)
        return KILN_OK;
    if (work->unchecked.code)
        return kiln_fail(err, work->unchecked.code, "%s", work->unchecked.text);
    for (unsigned i = 0; i < work->count && !rc; i++) {
        const struct work_solver *s = &work->solvers[i];
        if (s->is_measured && s->timing.median_ms > 0 &&
            (s->state == KILN_CONV_TIMED || s->state == KILN_CONV_CUT_SHORT))
            rc = record_solver(work, s, err);
    }
    return rc;
}

static enum kiln_code add_entry(struct work *work, const struct work_solver *s,
                                struct kiln_err *err)
{
    const struct kiln_conv_entry entry = {
        .solver = s->solution.solver,
        .algorithm = s->solution.algorithm,
        .config = s->config,
        .state = s->state,
        .median_ms = s->timing.median_ms,
        .spread_ms = s->timing.spread_ms,
        .samples = s->timing.samples,
        .workspace = s->plan ? kiln_plan_workspace(s->plan) : s->solution.best_workspace,
        .checked = s->checked,
        .reason = s->reason,
        .tried = s->tried,
    };
    return conv_list_add(&work->result->solvers, &entry, err);
}

static enum kiln_code build_result(struct work *work, struct kiln_err *err)
{
    const struct work_solver *best = work_fastest(work);
    enum kiln_code rc = KILN_OK;
    for (unsigned i = 0; i < work->count && !rc; i++)
        rc = add_entry(work, &work->solvers[i], err);
    conv_list_sort(&work->result->solvers);
    /* Beside a job, only checked plans replace another; and those of a search that is shared are
     * taken from the records. */
    bool may_replace = !work->pace || (!work->unchecked.code && !work->leaves_plan);
    if (!rc && best && !work->result->plan && may_replace)
        work->result->plan = kiln_plan_ref(best->plan);
    return rc;
}

static bool shall_search(const struct work *work, bool is_tune)
{
    switch (work->options.enforce) {
    case KILN_ENFORCE_SEARCH:
    case KILN_ENFORCE_SEARCH_DB_UPDATE: return true;
    case KILN_ENFORCE_DB_CLEAN: return false;
    default: return is_tune;
    }
}

static enum kiln_code measure_solvers(struct work *work, bool is_tune, struct kiln_err *err)
{
    bool does_search = shall_search(work, is_tune);
    if (work->pace && is_tune && !work_needs_tune(work))
        return KILN_OK; /* the job keeps its plan */
    if (does_search && !work->options.budget_ms)
        work->end_ns = work->start_ns + TUNE_BUDGET_MS * 1000000ull;
    if (!does_search && !is_tune && use_records(work))
        return get_current_plan(work, err);
    enum kiln_code rc = find_fastest(work, err);
    if (!rc && does_search &&
        /* If results are not checked, the program has only its built-in kernels, so there are no
         * other configs to try. */
        !work->unchecked.code)
        rc = work_tune(work, err);
    work->leaves_plan = work->follows && does_search;
    return rc || work->leaves_plan ? rc : judge_incumbent(work, err);
}

/* Returns the plan of a search although the job takes its plans from the records. */
static enum kiln_code keep_unrecorded(struct work *work, struct kiln_err *err)
{
    if (!work->leaves_plan)
        return KILN_OK;
    work->leaves_plan = false;
    return judge_incumbent(work, err);
}

/* Uses generic kernels if |why| says that no solver can be compiled here.  They are not measured:
 * the reference, with which results are compared, cannot be compiled either. */
static bool use_generic(struct work *work, const struct kiln_err *why)
{
    if (work->pace || has_any_plan(work) || !work_get_generic(work, why->code))
        return false;
    kiln_fail(&work->result->not_recorded, why->code, "generic kernels are used: %s", why->text);
    return true;
}

/* Measures, records and reports.  If the device is lost, earlier measurements are still recorded.
 * If recording fails, the measurements are still returned.  If the thread beside a job was stopped,
 * records nothing: no later job would measure the remaining solvers. */
static enum kiln_code run_work(struct work *work, const struct kiln_conv_options *options,
                               bool is_tune, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = work_begin(work, options, err);
    if (rc)
        return rc;
    if (work->options.mode == KILN_FIND_SOON && !is_tune)
        return soon_find(work, err);
    rc = work_list(work, err);
    if (!rc)
        rc = measure_solvers(work, is_tune, err);
    if (rc && !is_tune && use_generic(work, err))
        return work_add_plan(work, err);
    if (!pace_is_stopped(work->pace) && record_solvers(work, &why)) {
        work->result->not_recorded = why;
        if (!rc)
            rc = keep_unrecorded(work, err);
    }
    return rc ? rc : build_result(work, err);
}

enum kiln_code work_run(const struct work *given, const struct kiln_conv_options *options,
                        bool is_tune, struct kiln_conv_result **ret_result, struct kiln_err *err)
{
    struct work *work = malloc(sizeof(*work));
    if (!work)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to measure with");
    *work = *given;
    enum kiln_code rc = run_work(work, options, is_tune, err);
    if (!rc)
        *ret_result = KILN_TAKE(work->result);
    work_done(work);
    free(work);
    return rc;
}

static int find_or_tune(const struct work *given, const struct kiln_conv_options *options,
                        bool is_tune, struct kiln_conv_result **ret_result, struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    if (!given->public_problem || !ret_result)
        return error_argument(err, "find and tune need a problem and a pointer for the result");
    return error_return(&e, work_run(given, options, is_tune, ret_result, &e), err);
}

int kiln_conv_find(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err)
{
    const struct work given = { .client = client, .public_problem = problem };
    return find_or_tune(&given, options, /* is_tune= */ false, ret_result, err);
}

int kiln_conv_tune(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err)
{
    const struct work given = { .client = client, .public_problem = problem };
    return find_or_tune(&given, options, /* is_tune= */ true, ret_result, err);
}
