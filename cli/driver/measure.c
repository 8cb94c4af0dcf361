/* SPDX-License-Identifier: MIT */
#include "cli/driver/measure.h"

#include "cli/driver/find.h"
#include "cli/driver/reference.h"
#include "cli/driver/storage.h"
#include "cli/driver/tensors.h"
#include "common/base/clock.h"
#include "common/base/json.h"

#include <stdio.h>

struct attempt {
    const struct bench *bench;
    const struct kiln_driver_line *flags;
    struct measurement *m;
    struct kiln_plan *plan;
    struct kiln_run *run;
    struct tensors *tensors;
    bool without_packages; /* the driver refused the plan's kernels, which may be of a package */
};

static double seconds_since(uint64_t start_ns)
{
    return (double)(clock_monotonic_ns() - start_ns) / 1e9;
}

static void note_objects(struct measurement *m, const struct kiln_plan *plan)
{
    for (unsigned i = 0; i < kiln_plan_object_count(plan) && i < MEASURE_OBJECTS_MAX; i++) {
        struct measured_object *object = &m->objects[m->object_count++];
        snprintf(object->key, sizeof(object->key), "%s", kiln_plan_object_key(plan, i));
        object->tier = kiln_plan_object_tier(plan, i);
        object->size = kiln_plan_object_size(plan, i);
        object->compile_s = (double)kiln_plan_object_compile_ns(plan, i) / 1e9;
        if (object->tier == KILN_TIER_COMPILED)
            m->time.compile += object->compile_s;
    }
}

static bool is_from_process_cache(const struct measurement *m)
{
    return m->object_count > 0 && m->objects[0].tier == KILN_TIER_PROCESS;
}

struct kiln_plan_options bench_plan_options(const struct bench *bench, const char *solver)
{
    const char *database_id = kiln_device_database_id(bench->device);
    const char *driver = kiln_device_driver(bench->device);
    return (struct kiln_plan_options){
        .size = sizeof(struct kiln_plan_options),
        .target = kiln_device_target(bench->device),
        .database_id = *database_id ? database_id : NULL,
        .driver = *driver ? driver : NULL,
        .solver = *solver ? solver : NULL,
        .toolchain = bench->toolchain,
        .priority = KILN_INTERACTIVE,
    };
}

/* Runs tune if the flags ask for tune.  Otherwise runs find, unless -S names the solver or, in fast
 * mode, kilnd has chosen the solver. */
static int choose_solver(struct attempt *a, struct kiln_error *err)
{
    const struct bench *bench = a->bench;
    bool tunes = a->flags->search != 0;
    if (!bench->find)
        return KILN_E_OK;
    bool searches = bench->find->enforce >= KILN_ENFORCE_SEARCH;
    bool is_chosen = *a->flags->solver || bench->find->mode == KILN_FIND_FAST;
    if (!tunes && !searches && is_chosen)
        return KILN_E_OK;
    struct find_call call = { .client = bench->client,
                              .device = bench->device,
                              .problem = &a->m->problem,
                              .options = bench->find,
                              .solver = a->flags->solver,
                              .find_ms = bench->find_ms,
                              .tunes = tunes,
                              .progress = bench->progress };
    uint64_t start = clock_monotonic_ns();
    int rc = find_run(&call, &a->m->found, err);
    a->m->time.find = seconds_since(start);
    return rc;
}

static int take_plan(struct attempt *a, struct kiln_error *err)
{
    struct kiln_plan_options options = bench_plan_options(a->bench, a->flags->solver);
    options.no_packages = a->without_packages;
    struct kiln_plan *found = a->m->found ? kiln_conv_result_plan(a->m->found) : NULL;
    if (!found)
        return kiln_plan_get(a->bench->client, &a->m->problem, &options, &a->plan, err);
    a->plan = kiln_plan_ref(found);
    return KILN_E_OK;
}

static int get_plan(struct attempt *a, struct kiln_error *err)
{
    struct measurement *m = a->m;
    uint64_t start = clock_monotonic_ns();
    int rc = take_plan(a, err);
    double spent = seconds_since(start);
    m->time.fetch = spent;
    if (rc)
        return rc;
    note_objects(m, a->plan);
    double planning = is_from_process_cache(m) ? 0 : (double)kiln_plan_ns(a->plan) / 1e9;
    m->time.plan = planning < spent ? planning : spent;
    m->time.fetch = spent - m->time.plan;
    snprintf(m->solver, sizeof(m->solver), "%s", kiln_plan_solver(a->plan));
    snprintf(m->config, sizeof(m->config), "%s", kiln_plan_config(a->plan));
    snprintf(m->toolchain, sizeof(m->toolchain), "%s", kiln_plan_toolchain(a->plan));
    m->workspace = kiln_plan_workspace(a->plan);
    return KILN_E_OK;
}

static int create_run(struct attempt *a, struct kiln_error *err)
{
    uint64_t start = clock_monotonic_ns();
    int rc = kiln_run_create(a->bench->device, a->plan, &a->run, err);
    a->m->time.load = seconds_since(start);
    return rc ? cli_while(err, "loading %s", a->m->solver) : KILN_E_OK;
}

/* Find has loaded the plan that it returns.  Another plan may be of a package that the driver
 * refuses, and is then requested again. */
static int load_plan(struct attempt *a, struct kiln_error *err)
{
    int rc = create_run(a, err);
    if (a->m->found || a->bench->toolchain || (rc != KILN_E_CORRUPT && rc != KILN_E_UNSUPPORTED))
        return rc;
    const struct kiln_error refusal = *err;
    a->without_packages = true;
    a->m->object_count = 0;
    kiln_plan_unref(KILN_TAKE(a->plan));
    rc = get_plan(a, err);
    if (!rc)
        rc = create_run(a, err);
    return rc ? cli_while(err, "%.300s; without kernels of packages", refusal.text) : KILN_E_OK;
}

static int check_memory(struct attempt *a, struct kiln_error *err)
{
    struct tensors_options options = { .verify = a->flags->verify };
    return tensors_check(&a->m->problem, &options, err);
}

static int make_tensors(struct attempt *a, struct kiln_error *err)
{
    uint64_t start = clock_monotonic_ns();
    struct tensors_options options = {
        .seed = a->m->seed,
        .workspace = a->m->workspace,
        .verify = a->flags->verify,
    };
    int rc = tensors_create(a->bench->device, &a->m->problem, &options, &a->tensors, err);
    a->m->time.check += seconds_since(start);
    for (int i = 0; !rc && i < 3; i++) {
        bool output = i == a->tensors->output;
        *(output ? &a->m->bytes_written : &a->m->bytes_read) += a->tensors->bytes[i];
        a->m->elements = output ? a->tensors->elements[i] : a->m->elements;
    }
    return rc;
}

static int launch_kernel(const struct attempt *a, struct kiln_error *err)
{
    const struct tensors *t = a->tensors;
    const struct kiln_tensors tensors = { .size = sizeof(tensors),
                                          .x = t->memory[KILN_TENSOR_X],
                                          .w = t->memory[KILN_TENSOR_W],
                                          .y = t->memory[KILN_TENSOR_Y],
                                          .workspace = t->workspace };
    return kiln_run_launch(a->run, &tensors, NULL, err);
}

static int launch_and_wait(const struct attempt *a, unsigned count, double *ret_seconds,
                           struct kiln_error *err)
{
    uint64_t start = clock_monotonic_ns();
    int rc = KILN_E_OK;
    for (unsigned i = 0; !rc && i < count; i++)
        rc = launch_kernel(a, err);
    if (!rc)
        rc = kiln_device_finish(a->bench->device, err);
    *ret_seconds = seconds_since(start);
    return rc ? cli_while(err, "launching %s", a->m->solver) : KILN_E_OK;
}

static int compare_seconds(const void *left, const void *right)
{
    double x = *(const double *)left;
    double y = *(const double *)right;
    return (x > y) - (x < y);
}

struct clock {
    struct kiln_event *begin, *end;
};

static void clock_done(struct clock *clock)
{
    kiln_event_destroy(clock->begin);
    kiln_event_destroy(clock->end);
}

static int time_launch(const struct attempt *a, const struct clock *clock, double *ret_seconds,
                       struct kiln_error *err)
{
    double ms = 0;
    int rc = kiln_event_record(clock->begin, NULL, err);
    if (!rc)
        rc = launch_kernel(a, err);
    if (!rc)
        rc = kiln_event_record(clock->end, NULL, err);
    if (!rc)
        rc = kiln_event_elapsed(clock->begin, clock->end, &ms, err);
    *ret_seconds = ms / 1e3;
    return rc;
}

static int time_launches(const struct attempt *a, double *times, unsigned count,
                         struct kiln_error *err)
{
    __attribute__((cleanup(clock_done))) struct clock clock = { .begin = NULL };
    int rc = kiln_event_create(a->bench->device, &clock.begin, err);
    if (!rc)
        rc = kiln_event_create(a->bench->device, &clock.end, err);
    for (unsigned i = 0; !rc && i < count; i++)
        rc = time_launch(a, &clock, &times[i], err);
    return rc ? cli_while(err, "timing %s", a->m->solver) : KILN_E_OK;
}

static int time_steady(struct attempt *a, struct kiln_error *err)
{
    unsigned count = a->flags->iterations;
    KILN_AUTO(mem) double *times = calloc(count, sizeof(*times));
    if (!times)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the times of %u launches", count);
    int rc = time_launches(a, times, count, err);
    if (rc)
        return rc;
    qsort(times, count, sizeof(*times), compare_seconds);
    a->m->time.steady =
        count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
    a->m->iterations = count;
    return KILN_E_OK;
}

/* ---- better plans ---- */

static int renew_workspace(struct attempt *a, struct kiln_error *err)
{
    struct tensors *t = a->tensors;
    kiln_memory_destroy(KILN_TAKE(t->workspace));
    return a->m->workspace
               ? kiln_memory_create(a->bench->device, a->m->workspace, &t->workspace, err)
               : KILN_E_OK;
}

/* Takes the best plan so far.  No launch may be in progress. */
static int take_better_plan(struct attempt *a, struct kiln_error *err)
{
    struct measurement *m = a->m;
    struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
    int rc = kiln_conv_plan_refresh(a->bench->client, m->found, &refreshed, err);
    m->tuned = refreshed.is_tuned;
    if (rc || !refreshed.is_new)
        return rc;
    m->improvements++;
    m->object_count = 0;
    kiln_run_destroy(KILN_TAKE(a->run));
    kiln_plan_unref(KILN_TAKE(a->plan));
    rc = get_plan(a, err);
    if (!rc)
        rc = load_plan(a, err);
    return rc ? rc : renew_workspace(a, err);
}

/* Repeats the problem, like a job that takes many steps, until its plan is tuned. */
static int improve_plan(struct attempt *a, struct kiln_error *err)
{
    struct measurement *m = a->m;
    const struct bench *bench = a->bench;
    uint64_t end = clock_monotonic_ns() + bench->improve_ms * 1000000;
    int rc = KILN_E_OK;
    m->provisional = m->found && kiln_conv_result_generation(m->found) > 0;
    if (!m->provisional)
        return KILN_E_OK;
    snprintf(m->first_solver, sizeof(m->first_solver), "%s", m->solver);
    snprintf(m->first_config, sizeof(m->first_config), "%s", m->config);
    while (!rc && !m->tuned && clock_monotonic_ns() < end) {
        double unused;
        rc = launch_and_wait(a, 1, &unused, err);
        bool is_old = kiln_conv_generation(bench->client) != kiln_conv_result_generation(m->found);
        if (!rc && is_old)
            rc = take_better_plan(a, err);
    }
    return rc;
}

static int launch_as_requested(struct attempt *a, struct kiln_error *err)
{
    int rc = launch_and_wait(a, 1, &a->m->time.first, err);
    if (!rc)
        rc = improve_plan(a, err);
    uint64_t start = clock_monotonic_ns();
    if (!rc && a->flags->time)
        rc = time_steady(a, err);
    if (!rc && a->flags->wall) {
        rc = launch_and_wait(a, a->flags->iterations, &a->m->time.wall, err);
        a->m->time.wall /= a->flags->iterations;
        a->m->iterations = a->flags->iterations;
    }
    if (a->flags->time || a->flags->wall)
        a->m->time.timed = seconds_since(start);
    return rc;
}

static int judge_result(struct attempt *a, const void *got, const double *want,
                        const double *magnitude, struct kiln_error *err)
{
    struct rounding rounding =
        rounding_of(&a->m->problem, a->m->solver, a->m->config, STORAGE_QUANTUM);
    struct reference_verdict v = reference_compare(&a->m->problem, got, want, magnitude, &rounding);
    a->m->checked = true;
    a->m->wrong = v.wrong;
    a->m->largest_error = v.error;
    if (v.wrong == 0)
        return KILN_E_OK;
    return cli_fail(
        err, KILN_E_CORRUPT,
        "the result is wrong in %llu of %llu elements.  The worst is element %llu: %.9g instead of "
        "%.9g (allowed error %.3g); repeat with --seed %llu",
        (unsigned long long)v.wrong, (unsigned long long)a->m->elements,
        (unsigned long long)v.index, v.got, v.want, v.bound, (unsigned long long)a->m->seed);
}

static int verify_result(struct attempt *a, struct kiln_error *err)
{
    struct tensors *t = a->tensors;
    uint64_t count = t->elements[t->output];
    KILN_AUTO(mem) void *got = malloc(t->bytes[t->output]);
    KILN_AUTO(mem) double *want = calloc(count, sizeof(double));
    KILN_AUTO(mem) double *magnitude = calloc(count, sizeof(double));
    if (!got || !want || !magnitude)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for the reference of %llu elements",
                        (unsigned long long)count);
    int rc = kiln_memory_read(t->memory[t->output], got, t->bytes[t->output], err);
    struct reference_tensors reference = {
        .x = t->wide[KILN_TENSOR_X],
        .w = t->wide[KILN_TENSOR_W],
        .y = t->wide[KILN_TENSOR_Y],
        .result = want,
        .magnitude = magnitude,
    };
    if (!rc)
        rc = reference_run(&a->m->problem, &reference, 0, err);
    return rc ? cli_while(err, "verification") : judge_result(a, got, want, magnitude, err);
}

static int check_result(struct attempt *a, struct kiln_error *err)
{
    if (!a->flags->verify)
        return KILN_E_OK;
    uint64_t start = clock_monotonic_ns();
    int rc = verify_result(a, err);
    a->m->time.check += seconds_since(start);
    return rc;
}

static double count_flops(const struct kiln_problem *p)
{
    uint64_t y = 0;
    struct kiln_error unused = { 0 };
    if (kiln_problem_tensor(p, KILN_TENSOR_Y, &y, NULL, &unused))
        return 0;
    double filter = (double)p->filter[0] * p->filter[1] * p->filter[2];
    return 2.0 * (double)y * filter * ((double)p->c / p->groups);
}

static void attempt_done(struct attempt *a)
{
    kiln_run_destroy(a->run);
    tensors_destroy(a->tensors);
    kiln_plan_unref(a->plan);
}

void measure(const struct bench *bench, const struct kiln_problem *problem,
             const struct kiln_driver_line *flags, uint64_t seed,
             struct measurement *ret_measurement)
{
    static int (*const steps[])(struct attempt *, struct kiln_error *) = {
        check_memory, choose_solver,       get_plan,     load_plan,
        make_tensors, launch_as_requested, check_result,
    };
    struct measurement *m = ret_measurement;
    struct attempt a = { .bench = bench, .flags = flags, .m = m };
    *m = (struct measurement){
        .problem = *problem,
        .transposed = flags->transposed != 0,
        .seed = seed,
        .flops = count_flops(problem),
    };
    int rc = kiln_problem_check(problem, &m->err);
    for (size_t i = 0; !rc && i < sizeof(steps) / sizeof(steps[0]); i++)
        rc = steps[i](&a, &m->err);
    attempt_done(&a);
    m->err.code = rc;
}

void measurement_done(struct measurement *measurement)
{
    kiln_conv_result_free(measurement->found);
    measurement->found = NULL;
}

unsigned measure_asked_direction(const struct measurement *m)
{
    unsigned direction = m->problem.direction % 3;
    return m->transposed && direction < 2 ? 1 - direction : direction;
}
