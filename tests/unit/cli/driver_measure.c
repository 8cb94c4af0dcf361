/* SPDX-License-Identifier: MIT */

/* The device of the fake libkiln is plain memory, and its kernel computes what the test chooses. */
#include "cli/driver/measure.h"
#include "cli/driver/reference.h"
#include "cli/driver/report.h"
#include "cli/driver/storage.h"
#include "tests/support/public_problem.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define LAUNCH_MS 8

enum behaviour { COMPUTES, WRITES_NOTHING, IS_OFF_ONCE };

static struct fake {
    enum behaviour behaviour;
    struct kiln_problem problem; /* the problem of the last plan */
    char solver[64], driver[64];
    int plan_code, run_code;
    int packaged_code; /* why the driver refuses a plan that may be of a package */
    bool is_packaged;  /* the last plan may be of a package */
    int tier;
    unsigned launches, live_memories, live_runs, live_plans, live_events;
    double clock_ms;
    int record_code;
    double first_value; /* first value of the first operand of the last launch */
    unsigned finds, tunes, live_results;
    int find_code;
    char only[64]; /* the one solver to which the last find or tune was restricted */
} fake;

struct kiln_memory {
    unsigned char *data;
    uint64_t bytes;
};

struct kiln_event {
    double at_ms;
};

int kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                  const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                  struct kiln_error *err)
{
    (void)client;
    fake.problem = *problem;
    snprintf(fake.solver, sizeof(fake.solver), "%s", options->solver ? options->solver : "Best");
    snprintf(fake.driver, sizeof(fake.driver), "%s", options->driver ? options->driver : "");
    fake.is_packaged = !options->no_packages;
    if (fake.plan_code) {
        *err = (struct kiln_error){ .code = fake.plan_code, .text = "no plan" };
        return fake.plan_code;
    }
    fake.live_plans++;
    *ret_plan = (void *)&fake;
    return KILN_E_OK;
}

void kiln_plan_unref(struct kiln_plan *plan) { fake.live_plans -= plan != NULL; }

const char *kiln_plan_solver(const struct kiln_plan *plan) { return plan ? fake.solver : NULL; }
const char *kiln_plan_config(const struct kiln_plan *plan) { return plan ? "8,4" : NULL; }
const char *kiln_plan_toolchain(const struct kiln_plan *plan) { return plan ? "opencl" : NULL; }
uint64_t kiln_plan_workspace(const struct kiln_plan *plan) { return plan ? 64 : 0; }
uint64_t kiln_plan_ns(const struct kiln_plan *plan) { return plan ? UINT64_MAX / 4 : 0; }
unsigned kiln_plan_object_count(const struct kiln_plan *plan) { return plan ? 1 : 0; }
const char *kiln_plan_object_key(const struct kiln_plan *plan, unsigned index)
{
    return plan && index == 0 ? "0123456789abcdef" : NULL;
}
int kiln_plan_object_tier(const struct kiln_plan *plan, unsigned index)
{
    return plan && index == 0 ? fake.tier : 0;
}
uint64_t kiln_plan_object_size(const struct kiln_plan *plan, unsigned index)
{
    return plan && index == 0 ? 4096 : 0;
}
uint64_t kiln_plan_object_compile_ns(const struct kiln_plan *plan, unsigned index)
{
    return plan && index == 0 ? 250000000 : 0;
}

const char *kiln_device_target(const struct kiln_device *device)
{
    (void)device;
    return "opencl:fake";
}
const char *kiln_device_database_id(const struct kiln_device *device)
{
    (void)device;
    return "";
}
const char *kiln_device_driver(const struct kiln_device *device)
{
    (void)device;
    return "Fake 1.0";
}
int kiln_device_finish(struct kiln_device *device, struct kiln_error *err)
{
    (void)device, (void)err;
    return KILN_E_OK;
}

int kiln_event_create(struct kiln_device *device, struct kiln_event **ret_event,
                      struct kiln_error *err)
{
    (void)device, (void)err;
    *ret_event = calloc(1, sizeof(**ret_event));
    assert_non_null(*ret_event);
    fake.live_events++;
    return KILN_E_OK;
}
void kiln_event_destroy(struct kiln_event *event)
{
    fake.live_events -= event != NULL;
    free(event);
}
int kiln_event_record(struct kiln_event *event, struct kiln_stream *stream, struct kiln_error *err)
{
    assert_null(stream);
    event->at_ms = fake.clock_ms;
    if (fake.record_code)
        *err = (struct kiln_error){ .code = fake.record_code, .text = "no event" };
    return fake.record_code;
}
int kiln_event_elapsed(struct kiln_event *begin, struct kiln_event *end, double *ret_ms,
                       struct kiln_error *err)
{
    (void)err;
    *ret_ms = end->at_ms - begin->at_ms;
    return KILN_E_OK;
}

int kiln_run_create(struct kiln_device *device, struct kiln_plan *plan, struct kiln_run **ret_run,
                    struct kiln_error *err)
{
    (void)device, (void)plan;
    if (fake.packaged_code && fake.is_packaged) {
        *err = (struct kiln_error){ .code = fake.packaged_code, .text = "the driver is too old" };
        return fake.packaged_code;
    }
    if (fake.run_code) {
        *err = (struct kiln_error){ .code = fake.run_code, .text = "it does not load" };
        return fake.run_code;
    }
    fake.live_runs++;
    *ret_run = (void *)&fake;
    return KILN_E_OK;
}

static int find_or_tune(unsigned *count, const struct kiln_conv_options *options,
                        struct kiln_conv_result **ret_result, struct kiln_error *err)
{
    ++*count;
    snprintf(fake.only, sizeof(fake.only), "%s", options->solver ? options->solver : "");
    if (fake.find_code) {
        *err = (struct kiln_error){ .code = fake.find_code, .text = "nothing found" };
        return fake.find_code;
    }
    fake.live_results++;
    *ret_result = (void *)&fake;
    return KILN_E_OK;
}

int kiln_conv_find(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err)
{
    (void)client;
    fake.problem = *problem;
    return find_or_tune(&fake.finds, options, ret_result, err);
}

int kiln_conv_tune(struct kiln_client *client, const struct kiln_problem *problem,
                   const struct kiln_conv_options *options, struct kiln_conv_result **ret_result,
                   struct kiln_error *err)
{
    (void)client;
    fake.problem = *problem;
    return find_or_tune(&fake.tunes, options, ret_result, err);
}

struct kiln_plan *kiln_conv_result_plan(const struct kiln_conv_result *result)
{
    snprintf(fake.solver, sizeof(fake.solver), "Found");
    return (void *)(uintptr_t)result;
}

struct kiln_plan *kiln_plan_ref(struct kiln_plan *plan)
{
    fake.live_plans++;
    return plan;
}

void kiln_conv_result_free(struct kiln_conv_result *result) { fake.live_results -= result != NULL; }

void kiln_run_destroy(struct kiln_run *run) { fake.live_runs -= run != NULL; }

static double *widen_values(const struct kiln_memory *memory, uint32_t type)
{
    uint64_t count = memory->bytes / storage_size(type);
    double *wide = calloc(count, sizeof(*wide));
    assert_non_null(wide);
    storage_widen(type, memory->data, count, wide);
    return wide;
}

int kiln_run_launch(struct kiln_run *run, const struct kiln_tensors *tensors,
                    struct kiln_stream *stream, struct kiln_error *err)
{
    struct kiln_memory *x = tensors->x, *w = tensors->w, *y = tensors->y;
    struct kiln_memory *const memory[] = {
        [KILN_FORWARD] = y, [KILN_BACKWARD_DATA] = x, [KILN_BACKWARD_WEIGHTS] = w
    };
    struct kiln_memory *out = memory[fake.problem.direction];
    uint32_t type = fake.problem.type;
    uint64_t count = out->bytes / storage_size(type);
    (void)run;
    assert_null(stream);
    assert_int_equal(tensors->workspace->data[0], 0xff);
    fake.launches++;
    fake.clock_ms += LAUNCH_MS;
    fake.first_value = storage_load(type, x == out ? w->data : x->data, 0);
    if (fake.behaviour == WRITES_NOTHING)
        return KILN_E_OK;
    double *wide[] = { widen_values(x, type), widen_values(w, type), widen_values(y, type) };
    double *result = calloc(count, sizeof(*result));
    struct reference_tensors reference = {
        .x = wide[0], .w = wide[1], .y = wide[2], .result = result
    };
    int rc = reference_run(&fake.problem, &reference, 1, err);
    for (uint64_t i = 0; i < count; i++)
        storage_store(type, out->data, i, result[i]);
    if (fake.behaviour == IS_OFF_ONCE)
        storage_store(type, out->data, count / 2, result[count / 2] + 1.0 / 64);
    for (int i = 0; i < 3; i++)
        free(wide[i]);
    free(result);
    return rc;
}

int kiln_memory_create(struct kiln_device *device, uint64_t bytes, struct kiln_memory **ret_memory,
                       struct kiln_error *err)
{
    (void)device, (void)err;
    *ret_memory = calloc(1, sizeof(**ret_memory));
    assert_non_null(*ret_memory);
    (*ret_memory)->data = calloc(1, bytes);
    (*ret_memory)->bytes = bytes;
    fake.live_memories++;
    return KILN_E_OK;
}

void kiln_memory_destroy(struct kiln_memory *memory)
{
    if (!memory)
        return;
    free(memory->data);
    free(memory);
    fake.live_memories--;
}

int kiln_memory_write(struct kiln_memory *memory, const void *from, uint64_t bytes,
                      struct kiln_error *err)
{
    (void)err;
    assert_true(bytes == memory->bytes);
    memcpy(memory->data, from, bytes);
    return KILN_E_OK;
}

int kiln_memory_read(struct kiln_memory *memory, void *to, uint64_t bytes, struct kiln_error *err)
{
    (void)err;
    assert_true(bytes == memory->bytes);
    memcpy(to, memory->data, bytes);
    return KILN_E_OK;
}

struct fixture {
    struct bench bench;
    struct kiln_problem problem;
    struct kiln_driver_line flags;
    struct measurement m;
};

SET_UP(set_up)
{
    fake = (struct fake){ .tier = KILN_TIER_COMPILED };
    f->flags = (struct kiln_driver_line){ .verify = 1, .iterations = 4 };
    f->problem = public_test_problem(2);
    f->problem.k = 6;
    f->problem.groups = 2;
    f->problem.in[1] = 9;
    f->problem.in[2] = 7;
    f->problem.stride[1] = 2;
}

TEAR_DOWN(tear_down)
{
    assert_false(fake.live_memories || fake.live_runs || fake.live_plans || fake.live_events);
}

FIXTURE(driver_measure, set_up, tear_down);

static int run_measurement(struct fixture *f, uint64_t seed)
{
    measure(&f->bench, &f->problem, &f->flags, seed, &f->m);
    return f->m.err.code;
}

TEST_F(driver_measure, a_correct_result_is_verified_in_every_direction_and_type)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        for (uint32_t type = 0; type < 3; type++) {
            f->problem.direction = direction;
            f->problem.type = type;
            assert_int_equal(run_measurement(f, 42), KILN_E_OK);
            assert_true(f->m.checked);
            assert_int_equal(f->m.wrong, 0);
            assert_true(f->m.elements > 0);
        }
    }
}

TEST_F(driver_measure, an_output_that_was_never_written_is_detected_by_its_poison)
{
    fake.behaviour = WRITES_NOTHING;
    assert_int_equal(run_measurement(f, 42), KILN_E_CORRUPT);
    assert_int_equal(f->m.wrong, f->m.elements);
    assert_non_null(strstr(f->m.err.text, "--seed 42"));
}

TEST_F(driver_measure, a_plan_request_states_the_driver_of_the_device)
{
    assert_int_equal(run_measurement(f, 42), KILN_E_OK);
    assert_string_equal(fake.driver, "Fake 1.0");
}

TEST_F(driver_measure, one_wrong_element_fails_the_problem)
{
    fake.behaviour = IS_OFF_ONCE;
    assert_int_equal(run_measurement(f, 42), KILN_E_CORRUPT);
    assert_int_equal(f->m.wrong, 1);
}

TEST_F(driver_measure, without_verification_a_wrong_result_goes_unnoticed)
{
    fake.behaviour = WRITES_NOTHING;
    f->flags.verify = 0;
    assert_int_equal(run_measurement(f, 42), KILN_E_OK);
    assert_false(f->m.checked);
}

TEST_F(driver_measure, the_same_seed_gives_the_same_data_and_another_does_not)
{
    double differing = 0;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    double first = fake.first_value;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_true(fake.first_value == first);
    for (uint64_t seed = 2; seed < 12; seed++) {
        assert_int_equal(run_measurement(f, seed), KILN_E_OK);
        differing += fake.first_value != first;
    }
    assert_true(differing > 5);
}

TEST_F(driver_measure, a_run_launches_once_more_than_it_times)
{
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.launches, 1);
    assert_true(f->m.time.steady == 0);
    f->flags.time = 1;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.launches, 1 + 1 + 4);
    assert_true(f->m.time.steady == LAUNCH_MS / 1e3);
    f->flags.wall = 1;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.launches, 6 + 1 + 4 + 4);
    assert_true(f->m.time.wall > 0);
    assert_true(f->m.time.timed > f->m.time.wall);
}

TEST_F(driver_measure, a_device_that_reports_no_time_fails_the_problem)
{
    fake.record_code = KILN_E_GPU_FAULT;
    f->flags.time = 1;
    assert_int_equal(run_measurement(f, 1), KILN_E_GPU_FAULT);
    assert_non_null(strstr(f->m.err.text, "timing Best"));
}

TEST_F(driver_measure, the_time_of_planning_is_at_most_the_whole_wait)
{
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_true(f->m.time.plan < 60 && f->m.time.fetch >= 0);
    assert_true(f->m.time.compile == 0.25);
    fake.tier = KILN_TIER_PROCESS;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_true(f->m.time.plan == 0);
    assert_true(f->m.time.compile == 0);
}

TEST_F(driver_measure, a_named_solver_is_used_for_the_plan)
{
    snprintf(f->flags.solver, sizeof(f->flags.solver), "ConvDirectNaive");
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_string_equal(f->m.solver, "ConvDirectNaive");
}

static struct kiln_conv_options find_options(int mode, int enforce)
{
    return (struct kiln_conv_options){ .size = sizeof(struct kiln_conv_options),
                                       .mode = mode,
                                       .enforce = enforce };
}

TEST_F(driver_measure, without_a_solver_the_run_uses_finds_result)
{
    struct kiln_conv_options find = find_options(KILN_FIND_HYBRID, KILN_ENFORCE_NONE);
    f->bench.find = &find;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.finds, 1);
    assert_string_equal(fake.only, "");
    assert_string_equal(f->m.solver, "Found");
    assert_string_equal(f->m.config, "8,4");
    assert_true(f->m.checked && f->m.time.find > 0);
    measurement_done(&f->m);
    assert_int_equal(fake.live_results, 0);
}

TEST_F(driver_measure, a_named_solver_skips_find_unless_enforced)
{
    struct kiln_conv_options find = find_options(KILN_FIND_NORMAL, KILN_ENFORCE_DB_UPDATE);
    f->bench.find = &find;
    snprintf(f->flags.solver, sizeof(f->flags.solver), "ConvDirectNaive");
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.finds + fake.tunes, 0);
    find.enforce = KILN_ENFORCE_SEARCH;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.finds, 1);
    assert_string_equal(fake.only, "ConvDirectNaive");
    measurement_done(&f->m);
}

TEST_F(driver_measure, fast_mode_leaves_the_choice_to_kilnd)
{
    struct kiln_conv_options find = find_options(KILN_FIND_FAST, KILN_ENFORCE_NONE);
    f->bench.find = &find;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.finds, 0);
    assert_string_equal(f->m.solver, "Best");
}

TEST_F(driver_measure, a_failed_search_fails_its_problem)
{
    struct kiln_conv_options find = find_options(KILN_FIND_FAST, KILN_ENFORCE_NONE);
    f->bench.find = &find;
    f->flags.search = 1;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(fake.tunes, 1);
    assert_int_equal(fake.finds, 0);
    measurement_done(&f->m);
    fake.find_code = KILN_E_UNSUPPORTED;
    assert_int_equal(run_measurement(f, 1), KILN_E_UNSUPPORTED);
    assert_says(f->m.err.text, "nothing found");
    assert_null(f->m.found);
}

TEST_F(driver_measure, failures_on_the_way_are_kept_with_their_step)
{
    fake.run_code = KILN_E_GPU_FAULT;
    assert_int_equal(run_measurement(f, 1), KILN_E_GPU_FAULT);
    assert_says(f->m.err.text, "loading Best");
    fake.plan_code = KILN_E_UNAVAILABLE;
    assert_int_equal(run_measurement(f, 1), KILN_E_UNAVAILABLE);
    assert_int_equal(f->m.object_count, 0);
}

TEST_F(driver_measure, kernels_of_packages_that_the_driver_refuses_are_compiled)
{
    fake.packaged_code = KILN_E_CORRUPT;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    assert_int_equal(f->m.object_count, 1);
    assert_int_equal(fake.live_plans, 0);
    assert_int_equal(fake.live_runs, 0);
}

TEST_F(driver_measure, if_the_driver_refuses_compiled_kernels_too_both_reasons_are_given)
{
    fake.packaged_code = KILN_E_CORRUPT;
    fake.run_code = KILN_E_UNSUPPORTED;
    assert_int_equal(run_measurement(f, 1), KILN_E_UNSUPPORTED);
    assert_says(f->m.err.text, "old");
    assert_says(f->m.err.text, "load");
}

TEST_F(driver_measure, kernels_are_not_compiled_again_if_the_device_fails)
{
    fake.packaged_code = KILN_E_GPU_FAULT;
    assert_int_equal(run_measurement(f, 1), KILN_E_GPU_FAULT);
    assert_true(fake.is_packaged);
}

TEST_F(driver_measure, a_problem_larger_than_memory_is_refused_before_allocation)
{
    f->problem.n = 1;
    f->problem.c = f->problem.k = f->problem.groups = 1;
    f->problem.in[1] = f->problem.in[2] = 46000;
    f->problem.stride[1] = 1;
    uint64_t needed = (uint64_t)46000 * 46000 * (2 * 4 + 4 + 4 * 8);
    FILE *meminfo = fopen("/proc/meminfo", "re");
    unsigned long long total = 0;
    SKIP_IF(!meminfo || fscanf(meminfo, "MemTotal: %llu", &total) != 1 || total * 1024 > needed,
            "this host has enough memory");
    fclose(meminfo);
    assert_int_equal(run_measurement(f, 1), KILN_E_NO_MEMORY);
    assert_int_equal(fake.launches, 0);
}

TEST_F(driver_measure, tensors_of_8_bit_integers_are_refused)
{
    f->problem.type = KILN_INT8;
    assert_int_equal(run_measurement(f, 1), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(f->m.err.text, "8-bit integers"));
    assert_int_equal(fake.launches, 0);
}

TEST_F(driver_measure, totals_are_the_sums_over_the_problems)
{
    struct report report;
    struct report_place place = { .line = 3, .command = "conv -n 2" };
    struct kiln_error err = { .code = KILN_E_INVALID, .text = "bad line" };
    report_init(&report, true);
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    report_add(&report, &place, &f->m);
    fake.tier = KILN_TIER_HOT;
    assert_int_equal(run_measurement(f, 1), KILN_E_OK);
    report_add(&report, &place, &f->m);
    report_add_failure(&report, &place, &err);

    const struct totals *t = &report.totals;
    assert_int_equal(t->problems, 3);
    assert_int_equal(t->failed, 1);
    assert_int_equal(t->verified, 2);
    assert_int_equal(t->tiers.kernels, 2);
    assert_int_equal(t->tiers.compiles, 1);
    assert_int_equal(t->tiers.hits[KILN_TIER_HOT], 1);
    assert_true(t->time.compile == 0.25);
    assert_int_equal(json_count(report.results), 3);
    assert_true(json_get_bool(json_first(report.results), "ok", false));
    report_done(&report);
}
