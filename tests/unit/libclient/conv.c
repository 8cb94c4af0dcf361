/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"
#include "tests/unit/libclient/conv_fixture.h"

#include <math.h>
#include <string.h>

TEST(conv, find_orders_solvers_by_speed_and_says_what_was_wrong_with_others)
{
    struct conv_fixture *f = *state;
    must(conv_find(f), f->err);
    assert_int_equal(kiln_conv_result_count(f->result), 8);
    assert_string_equal(conv_at(f, 0).solver, "ConvBetter");
    assert_string_equal(conv_at(f, 1).solver, "ConvGood");
    assert_string_equal(conv_at(f, 2).solver, "ConvDirectNaive");
    assert_int_equal(conv_at(f, 2).state, KILN_CONV_TIMED);
    assert_string_equal(conv_at(f, 3).solver, "ConvSlow");
    assert_int_equal(conv_at(f, 3).state, KILN_CONV_CUT_SHORT);
    assert_int_equal(conv_entry(f, "ConvLazy").state, KILN_CONV_WRONG);
    assert_int_equal(conv_entry(f, "ConvWrong").state, KILN_CONV_WRONG);
    assert_int_equal(conv_entry(f, "ConvUncompiled").state, KILN_CONV_NOT_COMPILED);
    assert_string_equal(conv_entry(f, "ConvUncompiled").reason, "the compiler refused it");
    assert_int_equal(conv_entry(f, "ConvBroken").state, KILN_CONV_NOT_RUN);
    assert_says(conv_entry(f, "ConvBroken").reason, "resources");
    assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvBetter");
    assert_int_equal(f->plans, 9); /* eight solvers and the reference, in one batch */
    assert_int_equal(f->reported, 8);
}

TEST_F(conv, find_returns_the_devices_times_and_compares_the_whole_result)
{
    must(conv_find(f), f->err);
    struct kiln_conv_entry e = conv_entry(f, "ConvGood");
    assert_true(fabs(e.median_ms - 1) < 1e-9);
    assert_true(e.spread_ms <= 1e-6); /* only the rounding error of the fake clock */
    assert_int_equal(e.samples, 24);
    assert_int_equal(e.checked, 2 * 8 * 8 * 8);
    e = conv_entry(f, "ConvWrong");
    assert_says(e.reason, "1024");
    assert_says(e.reason, "1023");
}

TEST_F(conv, timings_are_recorded_with_their_origin)
{
    must(conv_find(f), f->err);
    assert_int_equal(f->put_count, 4);
    const struct conv_put *p = conv_put_of(f, TUNING_FIND, "ConvGood");
    assert_non_null(p);
    assert_int_equal(p->samples, 24);
    assert_true(fabs(p->median_ms - 1) < 1e-9);
    assert_string_equal(p->toolchain, "clang 15 abc");
    assert_string_equal(p->driver, "Made 1.0");
    assert_string_equal(p->uuid, "GPU-0000");
    assert_string_equal(p->device, "Made Device");
    assert_int_equal(p->clock_mhz, 1700);
    assert_int_equal(conv_put_of(f, TUNING_FIND, "ConvSlow")->samples, 1);
    assert_null(conv_put_of(f, TUNING_FIND, "ConvWrong"));
    assert_null(conv_put_of(f, TUNING_PERF, "ConvGood"));
}

TEST(conv, no_record_keeps_measurements_from_being_recorded)
{
    struct conv_fixture *f = *state;
    f->options.no_record = 1;
    must(conv_find(f), f->err);
    assert_int_equal(f->put_count, 0);
    assert_int_equal(conv_entry(f, "ConvGood").state, KILN_CONV_TIMED);
}

TEST_F(conv, a_slower_solver_is_sampled_less_often)
{
    static const struct conv_solver best_first[] = {
        { .name = "ConvBest", .kernel = "right 1" },
        { .name = "ConvNear", .kernel = "right 1.2" },
        { .name = "ConvSlower", .kernel = "right 1.3" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    CONV_USE(f, best_first);
    must(conv_find(f), f->err);
    assert_int_equal(conv_entry(f, "ConvNear").samples, 24);
    assert_int_equal(conv_entry(f, "ConvSlower").samples, 5);
    assert_int_equal(conv_entry(f, "ConvSlower").state, KILN_CONV_TIMED);
}

TEST_F(conv, a_measurement_that_cannot_be_recorded_is_returned_and_reported)
{
    f->refuses_puts = true;
    must(conv_find(f), f->err);
    assert_string_equal(conv_at(f, 0).solver, "ConvBetter");
    assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvBetter");
    assert_int_equal(kiln_conv_result_recorded(f->result, NULL), KILN_E_FULL);
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_FULL);
    assert_says(f->err.text, "ConvGood");
    assert_says(f->err.text, "disk");
    assert_int_equal(f->puts_asked, 1);
}

TEST_F(conv, recording_and_intended_non_recording_are_both_reported_as_ok)
{
    must(conv_find(f), f->err);
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_OK);
    f->refuses_puts = true;
    f->options.no_record = 1;
    must(conv_find(f), f->err);
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_OK);
    f->options.no_record = 0;
    f->options.mode = KILN_FIND_FAST;
    must(conv_find(f), f->err);
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_OK);
}

TEST_F(conv, a_device_without_a_database_id_is_reported_as_not_recorded)
{
    f->device->base.database_id[0] = '\0';
    must(conv_find(f), f->err);
    assert_string_equal(conv_at(f, 0).solver, "ConvBetter");
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "made:0");
    assert_int_equal(f->puts_asked, 0);
}

TEST_F(conv, a_find_may_be_limited_to_one_solver)
{
    f->options.solver = "ConvGood";
    must(conv_find(f), f->err);
    assert_int_equal(kiln_conv_result_count(f->result), 1);
    assert_int_equal(f->plans, 2);
    f->options.solver = "ConvNowhere";
    assert_int_equal(conv_find(f), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "ConvNowhere");
}

TEST(conv, records_answer_fast_and_hybrid_without_a_launch)
{
    static const struct conv_solver known[] = {
        { .name = "ConvGood", .kernel = "right 1", .find_ms = 1.5 },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    struct conv_fixture *f = *state;
    CONV_USE(f, known);
    for (int mode = KILN_FIND_FAST; mode <= KILN_FIND_HYBRID; mode++) {
        f->options.mode = mode;
        must(conv_find(f), f->err);
        assert_int_equal(conv_at(f, 0).state, KILN_CONV_RECORDED);
        assert_true(conv_at(f, 0).median_ms == 1.5);
        assert_int_equal(conv_at(f, 1).state, KILN_CONV_UNTIMED);
        assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvGood");
    }
    assert_int_equal(f->device->launches, 0);
    f->options.mode = KILN_FIND_NORMAL;
    must(conv_find(f), f->err);
    assert_true(conv_at(f, 0).median_ms < 1.01);
}

TEST(conv, without_records_fast_takes_the_heuristic_and_hybrid_measures)
{
    struct conv_fixture *f = *state;
    f->options.mode = KILN_FIND_FAST;
    must(conv_find(f), f->err);
    assert_int_equal(f->device->launches, 0);
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_UNTIMED);
    assert_non_null(kiln_conv_result_plan(f->result));
    f->options.mode = KILN_FIND_HYBRID;
    must(conv_find(f), f->err);
    assert_string_equal(conv_at(f, 0).solver, "ConvBetter");
}

TEST(conv, a_find_that_is_stopped_early_returns_its_measurements)
{
    struct conv_fixture *f = *state;
    f->enough_after = 2;
    must(conv_find(f), f->err);
    assert_int_equal(conv_entry(f, "ConvGood").state, KILN_CONV_TIMED);
    assert_int_equal(conv_entry(f, "ConvBetter").state, KILN_CONV_UNTIMED);
    assert_says(conv_entry(f, "ConvBetter").reason, "time");
}

TEST(conv, a_lost_device_ends_find_and_its_measurements_are_recorded)
{
    static const struct conv_solver fatal[] = {
        { .name = "ConvGood", .kernel = "right 1" },
        { .name = "ConvFatal", .kernel = "fatal 1" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    struct conv_fixture *f = *state;
    CONV_USE(f, fatal);
    assert_int_equal(conv_find(f), KILN_E_GPU_FAULT);
    assert_says(f->err.text, "ConvFatal");
    assert_null(f->result);
    assert_int_equal(f->put_count, 1);
    assert_non_null(conv_put_of(f, TUNING_FIND, "ConvGood"));
}

TEST(conv, without_a_reference_nothing_is_measured)
{
    static const struct conv_solver bad[] = { { .name = "ConvGood", .kernel = "right 1" },
                                              { .name = "ConvDirectNaive" } };
    static const struct conv_solver lazy[] = { { .name = "ConvGood", .kernel = "right 1" },
                                               { .name = "ConvDirectNaive", .kernel = "lazy 1" } };
    struct conv_fixture *f = *state;
    CONV_USE(f, bad);
    assert_int_equal(conv_find(f), KILN_E_UNSUPPORTED);
    assert_says(f->err.text, "ConvDirectNaive");
    assert_says(f->err.text, "compiler");
    CONV_USE(f, lazy);
    assert_int_equal(conv_find(f), KILN_E_GPU_FAULT);
    assert_says(f->err.text, "numbers");
    assert_int_equal(f->put_count, 0);
}

TEST(conv, built_in_kernels_are_timed_without_reference_and_not_recorded)
{
    struct conv_fixture *f = *state;
    f->not_built_in = "ConvDirectNaive ConvBetter ConvLazy ConvWrong ConvBroken";
    must(conv_find(f), f->err);
    assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvGood");
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_TIMED);
    assert_int_equal(conv_at(f, 0).checked, 0);
    assert_int_equal(conv_entry(f, "ConvBetter").state, KILN_CONV_NOT_COMPILED);
    assert_says(conv_entry(f, "ConvBetter").reason, "built into");
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_NOT_FOUND);
    assert_says(f->err.text, "compared");
    assert_says(f->err.text, "reference");
    assert_int_equal(f->puts_asked, 0);
}

TEST(conv, without_the_reference_nothing_is_searched)
{
    struct conv_fixture *f = *state;
    CONV_USE(f, conv_tunable);
    f->not_built_in = "ConvDirectNaive";
    must(conv_tune(f), f->err);
    assert_int_equal(f->config_requests, 0);
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_TIMED);
    assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvTuned");
}

TEST_F(conv, a_problem_that_nothing_is_built_in_for_fails)
{
    CONV_USE(f, conv_tunable);
    f->not_built_in = "ConvDirectNaive ConvTuned";
    assert_int_equal(conv_find(f), KILN_E_NOT_FOUND);
    assert_says(f->err.text, "built into");
}

static const struct conv_solver generic = { .name = "ConvGeneric", .kernel = "right 0.1" };

/* Nothing would replace a generic plan later, and find needs the other kernels anyway. */
TEST_F(conv, a_find_does_not_use_generic_kernels_if_it_can_measure)
{
    f->generic = &generic;
    for (int mode = KILN_FIND_NORMAL; mode <= KILN_FIND_HYBRID; mode++) {
        f->options.mode = mode;
        must(conv_find(f), f->err);
        assert_string_not_equal(kiln_plan_solver(kiln_conv_result_plan(f->result)), "ConvGeneric");
    }
    assert_int_equal(f->generic_plans, 0);
}

TEST_F(conv, a_find_that_can_compile_nothing_uses_generic_kernels)
{
    static const struct conv_solver uncompiled[] = {
        { .name = "ConvGood" },
        { .name = "ConvDirectNaive" },
    };
    CONV_USE(f, uncompiled);
    f->generic = &generic;
    for (int mode = KILN_FIND_NORMAL; mode <= KILN_FIND_HYBRID; mode++) {
        f->options.mode = mode;
        must(conv_find(f), f->err);
        struct kiln_plan *plan = kiln_conv_result_plan(f->result);
        assert_string_equal(kiln_plan_solver(plan), "ConvGeneric");
        assert_int_equal(kiln_plan_source(plan), KILN_PLAN_GENERIC);
        assert_int_equal(conv_entry(f, "ConvGeneric").state, KILN_CONV_UNTIMED);
        assert_int_not_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_OK);
        assert_says(f->err.text, "refused");
    }
    assert_int_equal(f->put_count, 0);

    f->options.mode = KILN_FIND_NORMAL;
    f->options.solver = "ConvGood";
    assert_int_not_equal(conv_find(f), KILN_E_OK);
    f->options.solver = NULL;
    assert_int_not_equal(conv_tune(f), KILN_E_OK); /* no config can be tried */
    f->generic = NULL;
    assert_int_not_equal(conv_find(f), KILN_E_OK);
}

TEST_F(conv, find_and_tune_fail_as_unavailable_without_a_daemon)
{
    fake_daemon_kill(&f->daemon);
    assert_int_equal(conv_find(f), KILN_E_UNAVAILABLE);
    assert_int_equal(conv_tune(f), KILN_E_UNAVAILABLE);
    assert_int_equal(f->device->memories, 0);
}

static unsigned plan_requests;
int __wrap_kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                         const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                         struct kiln_error *err);
int __real_kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                         const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                         struct kiln_error *err);

int __wrap_kiln_plan_get(struct kiln_client *client, const struct kiln_problem *problem,
                         const struct kiln_plan_options *options, struct kiln_plan **ret_plan,
                         struct kiln_error *err)
{
    plan_requests++;
    return __real_kiln_plan_get(client, problem, options, ret_plan, err);
}

/* Without kilnd, each request may wait for a connection. */
TEST_F(conv, a_find_without_a_daemon_asks_once)
{
    fake_daemon_kill(&f->daemon);
    plan_requests = 0;
    assert_int_equal(conv_find(f), KILN_E_UNAVAILABLE); /* has asked for solvers */
    assert_int_equal(plan_requests, 0);
    f->options.mode = KILN_FIND_SOON;
    f->options.frozen = 1;
    assert_int_equal(conv_find(f), KILN_E_UNAVAILABLE);
    assert_int_equal(plan_requests, 1);
}

static void connect_first(struct conv_fixture *f)
{
    must(kiln_client_ping(f->client, 0, NULL, &f->err), f->err); /* the handshake is over */
}

TEST_F(conv, plans_that_never_come_time_out)
{
    connect_first(f);
    f->silent_plans = true;
    f->options.timeout_ms = WAIT_MS;
    assert_int_equal(conv_find(f), KILN_E_TIMED_OUT);
    assert_says(f->err.text, "reference");
}

TEST_F(conv, a_find_with_a_budget_does_not_wait_for_a_late_compile)
{
    f->silent = "ConvBetter";
    f->options.budget_ms = WAIT_MS;
    must(conv_find(f), f->err);
    const struct kiln_conv_entry late = conv_entry(f, "ConvBetter");
    assert_int_equal(late.state, KILN_CONV_UNTIMED);
    assert_says(late.reason, "compile");
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_TIMED);
}

/* The solver that plans use without measurements must not lose to one that compiles sooner. */
TEST_F(conv, a_find_with_a_budget_waits_for_the_preferred_solver)
{
    connect_first(f);
    CONV_USE(f, conv_tunable);
    f->silent = "ConvTuned";
    f->options.budget_ms = 1;
    f->options.timeout_ms = WAIT_MS;
    must(conv_find(f), f->err);
    const struct kiln_conv_entry late = conv_entry(f, "ConvTuned");
    assert_int_equal(late.state, KILN_CONV_NOT_COMPILED);
    assert_says(late.reason, "in time");
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_TIMED);
}

TEST_F(conv, a_device_without_memory_fails_find_with_its_name)
{
    f->device->memory_left = 1000;
    assert_int_equal(conv_find(f), KILN_E_NO_MEMORY);
    assert_says(f->err.text, "made:0");
}

TEST_F(conv, where_memory_is_short_one_set_of_operands_serves)
{
    uint64_t bytes = 0, all = 0;
    for (int i = 0; i < 3; i++) {
        must(kiln_problem_tensor(&f->problem, i, NULL, &bytes, &f->err), f->err);
        all += bytes;
    }
    f->device->memory_left = all + 16;
    must(conv_find(f), f->err);
    assert_string_equal(conv_at(f, 0).solver, "ConvBetter");
}

TEST_F(conv, invalid_options_of_find_are_refused)
{
    f->options.mode = 4;
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    assert_says(f->err.text, "kiln_conv_options.mode");
    f->options.mode = 0;
    f->options.enforce = 6;
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    f->options.enforce = 0;
    f->options.budget_ms = -1;
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    f->options.budget_ms = 0;
    f->options.size = 3;
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    f->options.size = sizeof(f->options);
    f->problem.type = KILN_INT8;
    assert_int_equal(conv_find(f), KILN_E_UNSUPPORTED);
    const struct kiln_conv_options without_device = { .size = sizeof(without_device) };
    assert_int_equal(kiln_conv_find(f->client, &f->problem, &without_device, &f->result, &f->err),
                     KILN_E_INVALID);
    assert_says(f->err.text, "kiln_conv_options.device");
    assert_int_equal(kiln_conv_find(f->client, &f->problem, NULL, &f->result, &f->err),
                     KILN_E_INVALID);
}

TEST(conv, a_kernel_that_cannot_be_loaded_is_not_run_rather_than_wrong)
{
    static const struct conv_solver damaged[] = {
        { .name = "ConvDamaged", .kernel = "damaged 1" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    struct conv_fixture *f = *state;
    CONV_USE(f, damaged);
    must(conv_find(f), f->err);
    assert_int_equal(conv_entry(f, "ConvDamaged").state, KILN_CONV_NOT_RUN);
    assert_says(conv_entry(f, "ConvDamaged").reason, "no code");
}

TEST(conv, a_reference_that_kilnd_has_no_time_for_may_be_asked_for_again)
{
    struct conv_fixture *f = *state;
    f->busy = "ConvDirectNaive";
    assert_int_equal(conv_find(f), KILN_E_BUSY);
    assert_says(f->err.text, "ConvDirectNaive");
    f->busy = "ConvGood";
    must(conv_find(f), f->err);
    assert_int_equal(conv_entry(f, "ConvGood").state, KILN_CONV_NOT_COMPILED);
}

TEST(conv, the_callers_tensors_are_used_and_checked)
{
    struct conv_fixture *f = *state;
    struct kiln_memory *memory[3];
    float values[4096];
    uint64_t bytes;
    for (unsigned i = 0; i < 4096; i++)
        values[i] = (float)i / 1024 - 2;
    for (int i = 0; i < 3; i++) {
        must(kiln_problem_tensor(&f->problem, i, NULL, &bytes, &f->err), f->err);
        must(kiln_memory_create(&f->device->base, bytes, &memory[i], &f->err), f->err);
        must(kiln_memory_write(memory[i], values, bytes, &f->err), f->err);
    }
    f->generic = &generic; /* which must not hide the failures */
    f->options.x = memory[0];
    f->options.w = memory[1];
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    assert_says(f->err.text, "tensor y");
    f->options.y = memory[2];
    must(conv_find(f), f->err);
    assert_string_equal(conv_at(f, 0).solver, "ConvBetter");
    assert_int_equal(conv_entry(f, "ConvLazy").state, KILN_CONV_WRONG);
    values[5] = NAN;
    must(kiln_memory_write(memory[1], values, 64, &f->err), f->err);
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    assert_says(f->err.text, "numbers");
    for (int i = 0; i < 3; i++)
        kiln_memory_destroy(memory[i]);
}

TEST_F(conv, the_callers_tensors_are_read_after_its_stream_has_finished)
{
    struct kiln_memory *memory[3];
    struct kiln_stream stream = { .device = &f->device->base, .native = &stream };
    uint64_t bytes;
    for (int i = 0; i < 3; i++) {
        must(kiln_problem_tensor(&f->problem, i, NULL, &bytes, &f->err), f->err);
        must(kiln_memory_create(&f->device->base, bytes, &memory[i], &f->err), f->err);
    }
    f->options.x = memory[0];
    f->options.w = memory[1];
    f->options.y = memory[2];
    f->options.stream = &stream;
    f->device->busy_stream = &stream;
    must(conv_find(f), f->err);
    assert_false(f->device->was_read_early);
    for (int i = 0; i < 3; i++)
        kiln_memory_destroy(memory[i]);
}

TEST(conv, states_have_names)
{
    assert_string_equal(kiln_conv_state_name(KILN_CONV_TIMED), "TIMED");
    assert_string_equal(kiln_conv_state_name(KILN_CONV_NOT_RUN), "NOT_RUN");
    assert_string_equal(kiln_conv_state_name(-1), "?");
    assert_string_equal(kiln_conv_state_name(99), "?");
}
