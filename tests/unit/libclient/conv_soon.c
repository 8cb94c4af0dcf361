/* SPDX-License-Identifier: MIT */
/* Find with KILN_FIND_SOON: the plan at once, and the plans of the thread. */
#include "libclient/client.h"
#include "libclient/conv/pace.h"
#include "tests/support/child.h"
#include "tests/support/shell.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/conv_fixture.h"

#include <string.h>
#include <unistd.h>

SET_UP_OF(set_up, struct conv_fixture)
{
    conv_open(f);
    f->options.mode = KILN_FIND_SOON;
    f->options.budget_ms = CONV_WHOLE_TUNE_MS;
    test_unsetenv("KILN_PLANS");
    test_setenv("KILN_SOON_BUDGET", "1000"); /* without rests */
}

FIXTURE_OF(soon, struct conv_fixture, set_up, NULL);

void __wrap_pace_wait(struct pace *pace, uint64_t ns);
void __real_pace_wait(struct pace *pace, uint64_t ns);

/* Waits before another attempt take a second.  The tests need none of them. */
void __wrap_pace_wait(struct pace *pace, uint64_t ns)
{
    if (ns < 1000000000)
        __real_pace_wait(pace, ns);
}

static const char *solver_in(const struct conv_fixture *f)
{
    return kiln_plan_solver(kiln_conv_result_plan(f->result));
}

static struct kiln_conv_refreshed refresh(struct conv_fixture *f)
{
    struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
    must(kiln_conv_plan_refresh(f->client, f->result, &refreshed, &f->err), f->err);
    return refreshed;
}

static bool is_better(void *context)
{
    struct conv_fixture *f = context;
    return kiln_conv_generation(f->client) != kiln_conv_result_generation(f->result);
}

static bool is_tuned(void *context) { return refresh(context).is_tuned; }

static void reopen(struct conv_fixture *f)
{
    kiln_conv_result_free(KILN_TAKE(f->result));
    kiln_client_close(KILN_TAKE(f->client));
    f->client = fake_client(&f->daemon);
    f->device->is_lost = false;
}

TEST_F(soon, a_provisional_plan_comes_without_a_measurement)
{
    test_setenv("KILN_SOON_BUDGET", "0");
    assert_int_equal(kiln_conv_generation(f->client), 0);
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(kiln_conv_result_count(f->result), 1);
    assert_int_equal(conv_at(f, 0).state, KILN_CONV_UNTIMED);
    assert_int_equal(kiln_conv_result_generation(f->result), 1);
    assert_int_equal(kiln_conv_generation(f->client), 1);
    assert_int_equal(f->plans, 1);
    assert_int_equal(f->device->launches, 0);
    struct kiln_conv_refreshed refreshed = refresh(f);
    assert_false(refreshed.is_new || refreshed.is_tuned);
}

TEST_F(soon, a_job_takes_the_better_plan_when_it_refreshes)
{
    must(conv_find(f), f->err);
    struct kiln_plan *first = kiln_plan_ref(kiln_conv_result_plan(f->result));
    wait_until("a better plan", is_better, f);
    assert_ptr_equal(kiln_conv_result_plan(f->result), first);
    assert_true(refresh(f).is_new);
    assert_string_equal(solver_in(f), "ConvBetter");
    assert_false(refresh(f).is_new);
    wait_until("the end of tuning", is_tuned, f);
    assert_string_equal(solver_in(f), "ConvBetter");
    assert_false(is_better(f));
    assert_non_null(conv_put_of(f, TUNING_FIND, "ConvBetter"));
    assert_string_equal(kiln_plan_solver(first), "ConvGood");
    kiln_plan_unref(first);
}

/* The job's kernels would wait for the thread's, and the thread's for the job's. */
TEST_F(soon, the_thread_uses_no_stream_of_the_job)
{
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_false(f->device->was_own_stream_used);
    assert_false(f->device->has_blocking_stream);
    assert_true(f->device->is_relaxed);
}

TEST_F(soon, the_job_keeps_half_of_the_free_memory)
{
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_true(f->device->launches > 0);
    reopen(f);
    f->device->launches = 0;
    f->device->memory_left = f->device->memory_used_max * 3 / 2;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_int_equal(f->device->launches, 0);
    assert_string_equal(solver_in(f), "ConvGood");
}

TEST_F(soon, a_second_find_gets_the_best_plan_so_far)
{
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    unsigned plans = f->plans;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvBetter");
    assert_false(is_better(f));
    assert_int_equal(f->plans, plans);
}

TEST_F(soon, a_find_that_records_is_not_one_that_does_not)
{
    f->options.no_record = 1;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_int_equal(f->put_count, 0);
    f->options.no_record = 0;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_non_null(conv_put_of(f, TUNING_FIND, "ConvBetter"));
}

TEST_F(soon, the_plan_stays_if_nothing_is_faster)
{
    static const struct conv_solver best_first[] = {
        { .name = "ConvBest", .kernel = "right 0.5" },
        { .name = "ConvWrong", .kernel = "wrong 0.1" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    CONV_USE(f, best_first);
    must(conv_find(f), f->err);
    struct kiln_plan *plan = kiln_conv_result_plan(f->result);
    wait_until("the end of tuning", is_tuned, f);
    assert_ptr_equal(kiln_conv_result_plan(f->result), plan);
}

/* The records of a similar problem have the best config, which find alone would not try. */
TEST_F(soon, a_similar_problems_config_is_not_given_up_for_a_slower_one)
{
    CONV_USE(f, conv_tunable);
    f->near_config = "11,1";
    must(conv_find(f), f->err);
    struct kiln_plan *plan = kiln_conv_result_plan(f->result);
    assert_string_equal(kiln_plan_config(plan), "11,1");
    wait_until("the end of tuning", is_tuned, f);
    assert_ptr_equal(kiln_conv_result_plan(f->result), plan);
    assert_int_equal(kiln_conv_generation(f->client), 2);
}

/* kilnd is busy when the thread requests the plan that the job uses. */
TEST_F(soon, a_plan_is_not_given_up_because_it_was_not_measured)
{
    static const struct conv_solver first_is_best[] = {
        { .name = "ConvBest", .kernel = "right 0.5" },
        { .name = "ConvSlower", .kernel = "right 0.8" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    CONV_USE(f, first_is_best);
    f->is_found_elsewhere = true;
    must(conv_find(f), f->err);
    struct kiln_plan *plan = kiln_conv_result_plan(f->result);
    f->busy = "ConvBest";
    f->is_found_elsewhere = false;
    wait_until("the end of tuning", is_tuned, f);
    assert_ptr_equal(kiln_conv_result_plan(f->result), plan);
}

TEST_F(soon, the_best_config_is_found)
{
    CONV_USE(f, conv_tunable);
    must(conv_find(f), f->err);
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "0,1");
    wait_until("the end of tuning", is_tuned, f);
    assert_string_equal(solver_in(f), "ConvTuned");
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "11,1");
}

static bool was_run(const char *journals, unsigned config)
{
    char line[16];
    snprintf(line, sizeof(line), "\n>\t%u,1\t", config);
    return strstr(journals, line) != NULL;
}

/* Another process has the first half of the configs, so the thread measures the second half, and
 * the heuristic's config. */
TEST_F(soon, two_processes_measure_different_configs)
{
    CONV_USE(f, conv_tunable);
    f->options.journal = test_directory();
    f->has_company = true;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    KILN_AUTO(mem) char *journals = shell_text(f->options.journal, "cat *.tune");
    for (unsigned i = 0; i < CONV_SPACE; i++) {
        unsigned config = i * 7 % CONV_SPACE;
        assert_int_equal(was_run(journals, config), i >= CONV_SPACE / 2 || config == 0);
    }
}

TEST_F(soon, a_problem_that_another_process_finds_is_not_measured_meanwhile)
{
    f->is_found_elsewhere = true;
    must(conv_find(f), f->err);
    WAIT_FOR(f->find_leases >= 2);
    assert_int_equal(f->device->launches, 0);
    assert_string_equal(solver_in(f), "ConvGood");
    f->is_found_elsewhere = false;
    wait_until("the end of tuning", is_tuned, f);
    assert_string_equal(solver_in(f), "ConvBetter");
}

TEST_F(soon, frozen_plans_never_change)
{
    f->options.frozen = 1;
    must(conv_find(f), f->err);
    assert_int_equal(kiln_conv_result_generation(f->result), 0);
    f->options.frozen = 0;
    test_setenv("KILN_PLANS", "frozen");
    must(conv_find(f), f->err);
    assert_int_equal(kiln_conv_result_generation(f->result), 0);
    assert_false(refresh(f).is_new);
    assert_int_equal(kiln_conv_generation(f->client), 0);
    assert_int_equal(f->device->launches, 0);
}

static const struct conv_solver generic = { .name = "ConvGeneric", .kernel = "right 0.1" };
static const struct conv_solver uncompiled[] = {
    { .name = "ConvGood" },
    { .name = "ConvDirectNaive" },
};

TEST_F(soon, a_plan_that_nothing_will_replace_is_not_generic)
{
    f->generic = &generic;
    f->options.frozen = 1;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(f->generic_plans, 0);
}

/* The generic plan is the fastest one, but the thread must not have to measure anything before the
 * job gets the plan that it would have got without generic kernels. */
TEST_F(soon, a_generic_plan_is_replaced_without_a_measurement)
{
    test_setenv("KILN_SOON_BUDGET", "0");
    f->generic = &generic;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGeneric");
    assert_int_equal(kiln_plan_source(kiln_conv_result_plan(f->result)), KILN_PLAN_GENERIC);
    wait_until("the plan without generic kernels", is_better, f);
    assert_true(refresh(f).is_new);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(f->device->launches, 0);
    assert_int_equal(f->generic_plans, 1);
}

TEST_F(soon, a_generic_plan_is_replaced_by_the_records_of_a_similar_problem)
{
    test_setenv("KILN_SOON_BUDGET", "0");
    CONV_USE(f, conv_tunable);
    f->near_config = "5,1";
    f->generic = &generic;
    must(conv_find(f), f->err);
    wait_until("the plan without generic kernels", is_better, f);
    assert_true(refresh(f).is_new);
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "5,1");
}

TEST_F(soon, a_generic_plan_is_replaced_if_the_recorded_config_does_not_compile)
{
    static const struct conv_solver recorded[] = {
        { .name = "ConvTuned", .kernel = "right 2.1", .best = "3,1", .has_space = true },
        { .name = "ConvDirectNaive", .kernel = "right 4" },
    };
    test_setenv("KILN_SOON_BUDGET", "0");
    CONV_USE(f, recorded);
    f->uncompiled_config = "3,1";
    f->generic = &generic;
    must(conv_find(f), f->err);
    wait_until("the plan without generic kernels", is_better, f);
    assert_true(refresh(f).is_new);
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "0,1");
}

/* Requests for plans that replace generic ones. */
static struct {
    struct fake_request request; /* the first one */
    uint8_t body[4096];
    unsigned count, answered;
} held;

static bool is_replacement(const struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    return rq->header.type == MESSAGE_plan && !(message_plan_read(&r).flags & PLAN_GENERIC);
}

static void hold(const struct fake_request *rq)
{
    struct conv_fixture *f = rq->daemon->context;
    f->unanswered++;
    held.request = *rq;
    memcpy(held.body, rq->body.data, rq->body.size);
    held.request.body = bytes_of(held.body, rq->body.size);
}

static void reply_busy(struct fake_request *rq)
{
    fake_reply_error(rq, KILN_BUSY, "too much is asked at once", NULL);
}

static void be_busy_twice(struct fake_request *rq)
{
    if (is_replacement(rq) && held.count++ < 2)
        reply_busy(rq);
    else
        conv_answer(rq);
}

TEST_F(soon, a_generic_plan_is_replaced_when_kilnd_has_time)
{
    test_setenv("KILN_SOON_BUDGET", "0");
    f->generic = &generic;
    f->daemon.handle = be_busy_twice;
    held.count = 0;
    must(conv_find(f), f->err);
    wait_until("the plan without generic kernels", is_better, f);
    assert_true(refresh(f).is_new);
    assert_string_equal(solver_in(f), "ConvGood");
}

#define PROBLEMS 5u

/* Answers one of the problems 1 to PROBLEMS in each batch of requests, the last problem first. The
 * first batch gets its answer when the job has a plan for one more problem, so that all of these
 * problems are watched. */
static void answer_one_of_each_batch(struct fake_request *rq)
{
    struct reader r = reader_of(rq->body);
    uint32_t n = rq->header.type == MESSAGE_plan ? message_plan_read(&r).problem.n : 0;
    bool is_next = n == PROBLEMS - held.answered;
    if (!is_replacement(rq)) {
        conv_answer(rq);
        if (n == PROBLEMS + 1)
            reply_busy(&held.request);
    } else if (++held.count == 1) {
        hold(rq);
    } else if (is_next || n > PROBLEMS) {
        held.answered += is_next;
        conv_answer(rq);
    } else {
        reply_busy(rq);
    }
}

static bool has_replaced_all(void *context)
{
    const struct conv_fixture *f = context;
    return kiln_conv_generation(f->client) == 1 + PROBLEMS + 1;
}

/* A batch may be as large as a network, and its time limit may be over before kilnd has compiled
 * every kernel. */
TEST_F(soon, generic_plans_are_replaced_as_long_as_kilnd_compiles)
{
    test_setenv("KILN_SOON_BUDGET", "0");
    f->generic = &generic;
    f->options.timeout_ms = 600000;
    f->daemon.handle = answer_one_of_each_batch;
    held.count = 0;
    held.answered = 0;
    for (f->problem.n = 1; f->problem.n <= PROBLEMS + 1; f->problem.n++) {
        must(conv_find(f), f->err);
        if (f->problem.n == 1)
            WAIT_FOR(f->unanswered == 1);
    }
    wait_until("the plans without generic kernels", has_replaced_all, f);
    f->problem.n = 1;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
}

/* For example, kilnd's compiler is newer than the driver, unlike that of the package. */
TEST_F(soon, a_generic_plan_stays_if_the_driver_refuses_its_replacement)
{
    static const struct conv_solver too_new[] = {
        { .name = "ConvGood", .kernel = "damaged 1" },
        { .name = "ConvDirectNaive", .kernel = "damaged 2" },
    };
    CONV_USE(f, too_new);
    f->generic = &generic;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_string_equal(solver_in(f), "ConvGeneric");
}

/* Answers the first request of the thread after the job's fourth generic plan, and none of the
 * others. */
static void answer_fourth(struct fake_request *rq)
{
    struct conv_fixture *f = rq->daemon->context;
    bool is_plan = rq->header.type == MESSAGE_plan;
    if (is_replacement(rq)) {
        if (++held.count == 1)
            hold(rq);
        else
            f->unanswered++;
        return;
    }
    conv_answer(rq);
    if (is_plan && f->generic_plans == 4)
        conv_answer(&held.request);
}

/* Otherwise, the layers of a network would wait for their compiles one after the other. The last of
 * the four problems may come too late for the second request. */
TEST_F(soon, generic_plans_are_replaced_together)
{
    test_setenv("KILN_SOON_BUDGET", "0");
    f->generic = &generic;
    f->options.timeout_ms = 600000;
    f->daemon.handle = answer_fourth;
    held.count = 0;
    must(conv_find(f), f->err);
    WAIT_FOR(f->unanswered == 1);
    for (unsigned i = 0; i < 3; i++) {
        f->problem.n++;
        must(conv_find(f), f->err);
    }
    WAIT_FOR(f->unanswered >= 3);
}

TEST_F(soon, a_generic_plan_is_not_compared_with_its_replacement)
{
    f->generic = &generic;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_string_equal(solver_in(f), "ConvBetter");
}

TEST_F(soon, a_generic_plan_stays_if_nothing_can_be_compiled)
{
    CONV_USE(f, uncompiled);
    f->generic = &generic;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_string_equal(solver_in(f), "ConvGeneric");
    assert_int_equal(kiln_plan_source(kiln_conv_result_plan(f->result)), KILN_PLAN_GENERIC);
}

TEST_F(soon, a_frozen_job_that_can_compile_nothing_has_the_generic_plan)
{
    CONV_USE(f, uncompiled);
    f->generic = &generic;
    f->options.frozen = 1;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGeneric");
    assert_int_equal(kiln_conv_result_generation(f->result), 0);
    assert_int_equal(kiln_conv_result_count(f->result), 1);
}

TEST_F(soon, a_frozen_job_without_any_kernel_learns_why)
{
    CONV_USE(f, uncompiled);
    f->options.frozen = 1;
    assert_int_equal(conv_find(f), KILN_E_COMPILE_FAILED);
    assert_says(f->err.text, "refused");
}

TEST_F(soon, a_client_can_be_closed_while_a_generic_plan_is_replaced)
{
    f->generic = &generic;
    f->silent = "ConvGood";
    f->options.timeout_ms = 600000;
    must(conv_find(f), f->err);
    WAIT_FOR(f->unanswered > 0);
    kiln_conv_result_free(KILN_TAKE(f->result));
    IN_TIME(kiln_client_close(KILN_TAKE(f->client)));
}

TEST_F(soon, damaged_settings_are_refused)
{
    test_setenv("KILN_PLANS", "thawed");
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    assert_says(f->err.text, "KILN_PLANS");
    test_unsetenv("KILN_PLANS");
    test_setenv("KILN_SOON_BUDGET", "1001");
    assert_int_equal(conv_find(f), KILN_E_INVALID);
    assert_says(f->err.text, "KILN_SOON_BUDGET");
}

TEST_F(soon, a_solver_that_faults_is_not_run_again)
{
    static const struct conv_solver fatal[] = {
        { .name = "ConvGood", .kernel = "right 1" },
        { .name = "ConvFatal", .kernel = "fatal 1" },
        { .name = "ConvBetter", .kernel = "right 0.8" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    CONV_USE(f, fatal);
    f->options.journal = test_directory();
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_true(f->device->is_lost);
    assert_string_equal(solver_in(f), "ConvGood");
    reopen(f);
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_false(f->device->is_lost);
    assert_string_equal(solver_in(f), "ConvBetter");
}

TEST_F(soon, a_config_that_faults_is_not_run_again)
{
    CONV_USE(f, conv_tunable);
    f->options.journal = test_directory();
    f->fatal_config = "7,1";
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_true(f->device->is_lost);
    reopen(f);
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_false(f->device->is_lost);
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "11,1");
}

/* As recorded after a tune of a millisecond: the heuristic's config. */
static const struct conv_solver recorded_early[] = {
    { .name = "ConvTuned",
      .kernel = "right 2.1",
      .find_ms = 2.1,
      .best = "0,1",
      .best_ms = 2.1,
      .has_space = true },
    { .name = "ConvDirectNaive", .kernel = "right 4", .find_ms = 4 },
};

static unsigned tune_alone(struct conv_fixture *f)
{
    unsigned before = f->config_requests;
    f->options.budget_ms = CONV_WHOLE_TUNE_MS;
    must(conv_tune(f), f->err);
    return f->config_requests - before;
}

TEST_F(soon, a_later_tune_without_a_job_continues_one_that_had_too_little_time)
{
    CONV_USE(f, conv_tunable);
    f->space = 200; /* more configs than can be tried in a millisecond */
    f->options.journal = test_directory();
    f->options.budget_ms = 1;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    CONV_SWITCH(f, recorded_early);
    assert_true(tune_alone(f) > 0);
    assert_string_not_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "0,1");
    assert_int_equal(tune_alone(f), 0);
}

TEST_F(soon, a_later_tune_does_not_repeat_one_that_tried_all_configs)
{
    CONV_USE(f, conv_tunable);
    f->options.journal = test_directory();
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    CONV_SWITCH(f, recorded_early);
    assert_int_equal(tune_alone(f), 0);
}

TEST_F(soon, a_later_job_does_not_continue_a_tune)
{
    CONV_USE(f, conv_tunable);
    f->options.journal = test_directory();
    f->options.budget_ms = 1;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    CONV_SWITCH(f, recorded_early);
    reopen(f);
    unsigned before = f->config_requests;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_int_equal(f->config_requests, before);
}

static bool has_survivor(void *context)
{
    const struct conv_fixture *f = context;
    KILN_AUTO(mem) char *journals = shell_text(f->options.journal, "cat *.tune 2>&1 || true");
    return strstr(journals, "\n<\t") != NULL;
}

/* The rest after the first run takes 69 s, longer than the test waits. */
TEST_F(soon, a_job_that_ends_during_a_rest_does_not_end_during_a_run)
{
    static const struct conv_solver slow[] = {
        { .name = "ConvLong", .kernel = "real 700" },
        { .name = "ConvDirectNaive", .kernel = "right 2" },
    };
    CONV_USE(f, slow);
    test_setenv("KILN_SOON_BUDGET", "10");
    f->options.journal = test_directory();
    must(conv_find(f), f->err);
    wait_until("a line that notes a first run", has_survivor, f);
}

/* The job may use less memory later. */
TEST_F(soon, a_config_without_enough_memory_is_tried_again_by_a_later_job)
{
    CONV_USE(f, conv_tunable);
    f->options.journal = test_directory();
    f->greedy_config = "7,1";
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    KILN_AUTO(mem) char *journals = shell_text(f->options.journal, "cat *.tune");
    assert_non_null(strstr(journals, "\n=\t4,1\t"));
    assert_null(strstr(journals, "\t7,1"));
}

TEST_F(soon, a_client_can_be_closed_while_its_thread_waits)
{
    f->silent = "ConvBetter";
    must(conv_find(f), f->err);
    WAIT_FOR(f->unanswered > 0);
    kiln_conv_result_free(KILN_TAKE(f->result));
    IN_TIME(kiln_client_close(KILN_TAKE(f->client)));
    assert_int_equal(f->device->memories, 0);
    assert_int_equal(f->put_count, 0); /* else the find would count as a whole one */
}

TEST_F(soon, a_client_can_be_closed_while_its_thread_waits_for_an_answer)
{
    f->silent_solutions = true;
    f->options.timeout_ms = 600000;
    must(conv_find(f), f->err);
    WAIT_FOR(f->unanswered > 0);
    kiln_conv_result_free(KILN_TAKE(f->result));
    IN_TIME(kiln_client_close(KILN_TAKE(f->client)));
}

TEST_F(soon, plans_beyond_the_maximum_number_of_problems_are_final)
{
    f->is_found_elsewhere = true; /* the thread measures nothing */
    for (uint32_t n = 1; n <= 4096; n++) {
        f->problem.n = n;
        must(conv_find(f), f->err);
        assert_int_equal(kiln_conv_result_generation(f->result), 1);
    }
    f->generic = &generic;
    f->problem.n = 4097;
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(kiln_conv_result_generation(f->result), 0);
    assert_int_equal(kiln_conv_result_recorded(f->result, &f->err), KILN_E_FULL);
    assert_says(f->err.text, "4096");
}

TEST_F(soon, a_forked_child_can_close_the_client)
{
    must(conv_find(f), f->err);
    pid_t child = fork();
    if (child == 0) {
        struct kiln_error err;
        int rc = kiln_conv_plan_refresh(f->client, f->result, NULL, &err);
        kiln_client_close(f->client);
        _exit(rc == KILN_E_INVALID ? 0 : 1);
    }
    assert_int_equal(await_child(child), 0);
    wait_until("the end of tuning", is_tuned, f);
}

static bool is_child;

/* Ends a child behind libkiln's exit handler, but before the leak checker's: the memory that the
 * parent's threads hold would count as leaked. */
static void end_child(void)
{
    if (is_child)
        _exit(0);
}

__attribute__((constructor)) static void watch_exit(void) { (void)atexit(end_child); }

TEST_F(soon, a_forked_child_with_a_client_of_its_own_can_exit)
{
    must(conv_find(f), f->err);
    pid_t child = fork();
    if (child == 0) {
        is_child = true;
        kiln_client_close(f->client);
        f->client = fake_client(&f->daemon);
        exit(0);
    }
    assert_int_equal(await_child(child), 0);
    wait_until("the end of tuning", is_tuned, f);
}

TEST_F(soon, a_refresh_without_a_result_is_refused)
{
    assert_int_equal(kiln_conv_plan_refresh(f->client, NULL, NULL, &f->err), KILN_E_INVALID);
    f->options.frozen = 1;
    must(conv_find(f), f->err);
    struct kiln_conv_refreshed unset = { .size = 0 };
    assert_int_equal(kiln_conv_plan_refresh(f->client, f->result, &unset, &f->err), KILN_E_INVALID);
    assert_says(f->err.text, "size");
}
