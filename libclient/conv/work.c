/* SPDX-License-Identifier: MIT */
#include "libclient/conv/work.h"

#include "common/base/clock.h"
#include "libclient/conv/loadable.h"
#include "libclient/device/device.h"
#include "libclient/failure.h"
#include "libclient/plans/plan.h"
#include "libclient/plans/problem.h"
#include "libclient/sized.h"

#include <kiln/admin.h>
#include <kiln/tuning.h>

#include <stdio.h>
#include <string.h>

#define MS 1000000ull
/* How long a thread beside the job waits before it checks whether it must end.  The wait must not
 * be much shorter, because connecting to kilnd may take a part of it. */
#define SLICE_NS (250 * MS)

static enum kiln_code check_range(const char *name, int value, int min, int max,
                                  struct kiln_err *err)
{
    if (value >= min && value <= max)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "kiln_conv_options.%s is %d: give %d to %d", name, value,
                     min, max);
}

static enum kiln_code read_options(const struct kiln_conv_options *given,
                                   struct kiln_conv_options *ret_options, struct kiln_err *err)
{
    struct kiln_conv_options o = { .size = sizeof(o) };
    if (!given || !sized_is_fine(given->size, SIZED_TO(struct kiln_conv_options, context)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_conv_options.size is not set: give it sizeof the struct");
    sized_copy(&o, sizeof(o), given, given->size);
    if (!o.device)
        return kiln_fail(err, KILN_INVALID,
                         "kiln_conv_options.device is not set: open one with kiln_device_open");
    o.mode = o.mode ? o.mode : KILN_FIND_NORMAL;
    o.enforce = o.enforce ? o.enforce : KILN_ENFORCE_NONE;
    o.tier = o.tier ? o.tier : KILN_TUNING_USER;
    o.solver = o.solver && o.solver[0] ? o.solver : NULL;
    enum kiln_code rc = o.mode == KILN_FIND_SOON
                            ? KILN_OK
                            : check_range("mode", o.mode, KILN_FIND_NORMAL, KILN_FIND_HYBRID, err);
    if (!rc)
        rc = check_range("enforce", o.enforce, KILN_ENFORCE_NONE, KILN_ENFORCE_DB_CLEAN, err);
    if (!rc)
        rc = check_range("tier", o.tier, KILN_TUNING_HOST, KILN_TUNING_USER, err);
    if (!rc)
        rc = check_range("budget_ms", o.budget_ms, 0, INT32_MAX, err);
    *ret_options = o;
    return rc;
}

static uint64_t rested_ns(const struct work *work)
{
    return work->pace ? work->pace->rested_ns : 0;
}

uint64_t work_now(const struct work *work) { return clock_monotonic_ns() - rested_ns(work); }

uint64_t work_real_ns(const struct work *work, uint64_t ns)
{
    uint64_t rested = rested_ns(work);
    return ns < UINT64_MAX - rested ? ns + rested : UINT64_MAX;
}

uint64_t work_deadline(const struct work *work)
{
    int ms = work->options.timeout_ms ? work->options.timeout_ms : work->client->timeout_ms;
    return clock_monotonic_ns() + (uint64_t)ms * MS;
}

bool work_has_time(const struct work *work)
{
    return !work->has_enough && work_now(work) < work->end_ns;
}

static bool is_clean(const struct work *work)
{
    return work->options.enforce == KILN_ENFORCE_DB_CLEAN;
}

struct kiln_plan_options work_plan_options(const struct work *work, const char *solver,
                                           const char *config)
{
    const char *id = kiln_device_database_id(work->device);
    const char *driver = kiln_device_driver(work->device);
    return (struct kiln_plan_options){ .size = sizeof(struct kiln_plan_options),
                                       .target = kiln_device_target(work->device),
                                       .database_id = id[0] ? id : NULL,
                                       .driver = driver[0] ? driver : NULL,
                                       .toolchain = work->options.toolchain,
                                       .solver = solver,
                                       .priority = work->pace ? KILN_PREFETCH : KILN_INTERACTIVE,
                                       .config = config && config[0] ? config : NULL,
                                       .heuristic = is_clean(work),
                                       .timeout_ms = work->options.timeout_ms,
                                       .no_packages =
                                           atomic_load(&work->device->refuses_packages) };
}

static enum kiln_code list_solvers(struct work *work, struct kiln_err *err)
{
    struct kiln_error e;
    const struct kiln_plan_options options = work_plan_options(work, NULL, NULL);
    int rc = kiln_solutions_get(work->client, work->public_problem, &options, &work->list, &e);
    if (rc)
        return error_take(rc, &e, err);
    for (unsigned i = 0; i < kiln_solutions_count(work->list) && work->count < WORK_SOLVERS_MAX;
         i++) {
        struct work_solver *s = &work->solvers[work->count];
        *s = (struct work_solver){ .solution = { .size = sizeof(s->solution) },
                                   .state = KILN_CONV_UNTIMED };
        rc = kiln_solutions_at(work->list, i, &s->solution, &e);
        if (rc)
            return error_take(rc, &e, err);
        const char *best = is_clean(work) ? "" : s->solution.best_config;
        snprintf(s->config, sizeof(s->config), "%s", best[0] ? best : s->solution.config);
        if (!work->options.solver || strcmp(work->options.solver, s->solution.solver) == 0)
            work->count++;
    }
    if (work->count == 0)
        return kiln_fail(err, KILN_UNSUPPORTED, "%s does not apply to this problem",
                         work->options.solver ? work->options.solver : "any solver");
    return KILN_OK;
}

static enum kiln_code clean_records(struct work *work, struct kiln_err *err)
{
    struct kiln_error e;
    char json[1024], line[512], *reply = NULL;
    const char *id = kiln_device_database_id(work->device);
    problem_to_driver(&work->problem, line, sizeof(line));
    if (!id[0] || work->options.no_record)
        return KILN_OK;
    snprintf(json, sizeof(json),
             "{\"tier\":\"user\",\"kind\":\"perf\",\"database_id\":\"%s\",\"problem\":\"%s\"}", id,
             line);
    const struct kiln_admin_call call = { .size = sizeof(call),
                                          .request = "tuning_remove",
                                          .json = json,
                                          .timeout_ms = work->options.timeout_ms };
    int rc = kiln_admin(work->client, &call, &reply, &e);
    kiln_free(reply);
    plans_forget(work->client, &work->problem);
    return rc == KILN_E_NOT_FOUND ? KILN_OK : error_take(rc, &e, err);
}

enum kiln_code work_begin(struct work *work, const struct kiln_conv_options *options,
                          struct kiln_err *err)
{
    uint64_t unused;
    enum kiln_code rc = read_options(options, &work->options, err);
    if (!rc)
        rc = client_enter(work->client, work->options.timeout_ms, &unused, err);
    if (!rc)
        rc = problem_from_public(work->public_problem, &work->problem, err);
    if (rc)
        return rc;
    work->device = work->options.device;
    work->start_ns = work_now(work);
    work->end_ns = UINT64_MAX;
    if (work->options.budget_ms)
        work->end_ns = work->start_ns + (uint64_t)work->options.budget_ms * MS;
    work->result = conv_result_create();
    return work->result ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory for results");
}

enum kiln_code work_list(struct work *work, struct kiln_err *err)
{
    enum kiln_code rc = is_clean(work) ? clean_records(work, err) : KILN_OK;
    return rc ? rc : list_solvers(work, err);
}

enum kiln_code work_next_plan(const struct work *work, struct plan_window *window,
                              uint64_t deadline_ns, struct planned *ret_planned,
                              struct failure *failure)
{
    enum kiln_code rc = KILN_TIMED_OUT;
    bool is_last = false;
    uint64_t began = clock_monotonic_ns();
    while (rc == KILN_TIMED_OUT && !is_last) {
        uint64_t slice = clock_monotonic_ns() + SLICE_NS;
        is_last = !work->pace || slice >= deadline_ns || pace_is_stopped(work->pace);
        rc = plan_window_next(window, is_last && !pace_is_stopped(work->pace) ? deadline_ns : slice,
                              ret_planned, failure);
    }
    if (work->pace)
        work->pace->rested_ns += clock_monotonic_ns() - began;
    return rc;
}

enum kiln_code work_first_run(const struct work *work, struct journal *journal, const char *config,
                              struct subject *subject, struct kiln_err *err)
{
    journal_begin(journal, config);
    if (!work->pace)
        return KILN_OK;
    uint64_t began = clock_monotonic_ns();
    enum kiln_code rc = subject_warm_up(subject, err);
    if (!rc)
        journal_survive(journal, config); /* before the rest, during which the job may end */
    pace_rest(work->pace, began);
    return rc;
}

enum kiln_code work_open_journal(const struct work *work, const char *solver,
                                 struct journal **ret_journal, struct kiln_err *err)
{
    char line[512];
    problem_to_driver(&work->problem, line, sizeof(line));
    const struct journal_subject subject = { .version = "libkiln " KILN_VERSION,
                                             .database_id = kiln_device_database_id(work->device),
                                             .driver = kiln_device_driver(work->device),
                                             .toolchain = work->toolchain,
                                             .solver = solver,
                                             .problem = line };
    *ret_journal = NULL;
    if (work->options.journal && !work->options.journal[0])
        return KILN_OK;
    return journal_open(work->options.journal, &subject, ret_journal, err);
}

void work_done(struct work *work)
{
    for (unsigned i = 0; i < work->count; i++)
        kiln_plan_unref(work->solvers[i].plan);
    kiln_solutions_free(work->list);
    bench_destroy(work->bench);
    kiln_conv_result_free(work->result);
}

bool work_is_winograd(const struct kiln_solution *solution)
{
    return strstr(solution->algorithm, "Winograd") != NULL;
}

struct work_solver *work_fastest(struct work *work)
{
    struct work_solver *best = NULL;
    for (unsigned i = 0; i < work->count; i++) {
        struct work_solver *s = &work->solvers[i];
        if (s->state == KILN_CONV_TIMED && (!best || s->timing.median_ms < best->timing.median_ms))
            best = s;
    }
    return best;
}

void work_report(struct work *work, struct kiln_conv_progress *progress)
{
    progress->size = sizeof(*progress);
    if (work->options.reported && work->options.reported(work->options.context, progress))
        work->has_enough = true;
}

void work_take_plan(struct work_solver *solver, struct kiln_plan *plan)
{
    struct kiln_plan *old = solver->plan;
    solver->plan = kiln_plan_ref(plan);
    kiln_plan_unref(old);
}

struct kiln_recording work_recording(const struct work *work, const struct kiln_plan *plan,
                                     const struct kiln_measurement *measurement)
{
    return (struct kiln_recording){ .size = sizeof(struct kiln_recording),
                                    .database_id = kiln_device_database_id(work->device),
                                    .tier = work->options.tier,
                                    .device_uuid = kiln_device_uuid(work->device),
                                    .device = kiln_device_model(work->device),
                                    .driver = kiln_device_driver(work->device),
                                    .toolchain = kiln_plan_toolchain_identity(plan),
                                    .clock_mhz = kiln_device_clock_mhz(work->device),
                                    .measurements = measurement,
                                    .measurement_count = 1,
                                    .timeout_ms = work->options.timeout_ms };
}

/* Returns whether |why| says that nothing can be compiled.  Generic kernels must not hide other
 * failures, such as tensors that are too small, from the job. */
static bool lacks_compiler(enum kiln_code why)
{
    return why == KILN_COMPILE_FAILED || why == KILN_UNAVAILABLE || why == KILN_UNSUPPORTED;
}

enum kiln_code work_get_plan(struct work *work, const struct kiln_plan_options *options,
                             struct kiln_err *err)
{
    const struct loadable_request request = { .client = work->client,
                                              .device = work->device,
                                              .problem = work->public_problem,
                                              .options = options,
                                              .note = &work->result->not_recorded };
    return loadable_plan_get(&request, &work->result->plan, err);
}

/* Returns whether kilnd answered the last request.  If not, another request would only wait for a
 * connection once more. */
static bool has_answer(const struct work *work)
{
    struct multiplexer_status status;
    multiplexer_status(work->client->multiplexer, &status);
    return status.answered;
}

bool work_get_generic(struct work *work, enum kiln_code why)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct kiln_plan_options options = work_plan_options(work, work->options.solver, NULL);
    struct kiln_plan **plan = &work->result->plan;
    options.generic = 1;
    if (!lacks_compiler(why) || !has_answer(work) || work->options.solver || options.no_packages ||
        work_get_plan(work, &options, &ignored))
        return false;
    bool is_generic = kiln_plan_source(*plan) == KILN_PLAN_GENERIC;
    if (!is_generic)
        kiln_plan_unref(KILN_TAKE(*plan));
    return is_generic;
}

enum kiln_code work_add_plan(struct work *work, struct kiln_err *err)
{
    const struct kiln_plan *plan = work->result->plan;
    double ms = kiln_plan_expected_ms(plan);
    const struct kiln_conv_entry entry = { .solver = kiln_plan_solver(plan),
                                           .config = kiln_plan_config(plan),
                                           .state = ms > 0 ? KILN_CONV_RECORDED : KILN_CONV_UNTIMED,
                                           .median_ms = ms,
                                           .workspace = kiln_plan_workspace(plan),
                                           .reason = ms > 0 ? "" : "no time was recorded" };
    return conv_list_add(&work->result->solvers, &entry, err);
}
