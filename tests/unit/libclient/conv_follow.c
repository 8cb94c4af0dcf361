/* SPDX-License-Identifier: MIT */
/* Plans that other processes have measured, which a job learns of by kilnd's counter. */
#include "libclient/client.h"
#include "libclient/conv/follow.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/conv_fixture.h"

#include <string.h>

#define FIRST 100

static const struct conv_solver unfound[] = {
    { .name = "ConvGood", .kernel = "right 1" },
    { .name = "ConvBetter", .kernel = "right 0.8" },
    { .name = "ConvDirectNaive", .kernel = "right 2" },
};
static const struct conv_solver found[] = {
    { .name = "ConvBetter", .kernel = "right 0.8", .find_ms = 0.8 },
    { .name = "ConvGood", .kernel = "right 1", .find_ms = 1 },
    { .name = "ConvDirectNaive", .kernel = "right 2", .find_ms = 2 },
};
/* Another process is recording its find, and has not come to the solver that the job uses. */
static const struct conv_solver found_in_part[] = {
    { .name = "ConvBetter", .kernel = "right 0.8", .find_ms = 3 },
    { .name = "ConvGood", .kernel = "right 1" },
    { .name = "ConvDirectNaive", .kernel = "right 2" },
};

SET_UP_OF(set_up, struct conv_fixture)
{
    conv_open(f);
    f->options.mode = KILN_FIND_SOON;
    test_unsetenv("KILN_PLANS");
    test_setenv("KILN_SOON_BUDGET", "0"); /* this process measures nothing */
    CONV_USE(f, unfound);
    conv_offer_counter(f, FIRST);
}

FIXTURE_OF(follow, struct conv_fixture, set_up, NULL);

static const char *solver_in(const struct conv_fixture *f)
{
    return kiln_plan_solver(kiln_conv_result_plan(f->result));
}

static bool refresh(struct conv_fixture *f)
{
    struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
    must(kiln_conv_plan_refresh(f->client, f->result, &refreshed, &f->err), f->err);
    return refreshed.is_new;
}

static bool is_better(void *context)
{
    struct conv_fixture *f = context;
    return kiln_conv_generation(f->client) != kiln_conv_result_generation(f->result);
}

/* Waits until the thread has compared the job's plan with the records. */
static void expect_comparison(struct conv_fixture *f)
{
    unsigned before = f->solutions_asked;
    WAIT_FOR(f->solutions_asked > before);
}

TEST_F(follow, a_job_takes_a_plan_that_another_process_measured)
{
    must(conv_find(f), f->err);
    assert_string_equal(solver_in(f), "ConvGood");
    WAIT_FOR(f->solutions_asked > 0);
    CONV_SWITCH(f, found);
    ++*f->counter;
    wait_until("a better plan", is_better, f);
    assert_string_equal(solver_in(f), "ConvGood");
    assert_true(refresh(f));
    assert_string_equal(solver_in(f), "ConvBetter");
    assert_int_equal(f->device->launches, 0);
}

TEST_F(follow, a_find_that_is_recorded_in_part_does_not_change_the_plan)
{
    must(conv_find(f), f->err);
    WAIT_FOR(f->solutions_asked > 0);
    CONV_SWITCH(f, found_in_part);
    ++*f->counter;
    expect_comparison(f);
    CONV_SWITCH(f, found);
    ++*f->counter;
    wait_until("a better plan", is_better, f);
    /* the first plan, and one that is not that of the find in part */
    assert_int_equal(f->plans, 2);
}

/* The plan has a tuned config of a similar problem, which may be faster than all untuned ones. */
TEST_F(follow, the_plan_of_a_similar_problem_is_replaced_by_a_tuned_one)
{
    static const struct conv_solver untuned[] = {
        { .name = "ConvTuned", .kernel = "right 2.1", .has_space = true, .find_ms = 2.1 },
        { .name = "ConvDirectNaive", .kernel = "right 4", .find_ms = 4 },
    };
    static const struct conv_solver tuned[] = {
        { .name = "ConvTuned",
          .kernel = "right 2.1",
          .has_space = true,
          .find_ms = 2.1,
          .best = "11,1",
          .best_ms = 1 },
        { .name = "ConvDirectNaive", .kernel = "right 4", .find_ms = 4 },
    };
    CONV_USE(f, conv_tunable);
    f->near_config = "5,1";
    must(conv_find(f), f->err);
    assert_int_equal(kiln_plan_source(kiln_conv_result_plan(f->result)), KILN_PLAN_NEAREST);
    WAIT_FOR(f->solutions_asked > 0);
    CONV_SWITCH(f, untuned);
    ++*f->counter;
    expect_comparison(f);
    CONV_SWITCH(f, tuned);
    ++*f->counter;
    wait_until("a better plan", is_better, f);
    assert_true(refresh(f));
    assert_string_equal(kiln_plan_config(kiln_conv_result_plan(f->result)), "11,1");
    assert_int_equal(f->plans, 2);
}

TEST_F(follow, frozen_plans_do_not_change)
{
    f->options.frozen = 1;
    must(conv_find(f), f->err);
    CONV_SWITCH(f, found);
    ++*f->counter;
    assert_false(refresh(f));
    assert_string_equal(solver_in(f), "ConvGood");
    assert_int_equal(f->watches_asked, 0);
}

/* The results of a client share a thread, which must leave the frozen one alone. */
TEST_F(follow, a_frozen_plan_does_not_change_beside_one_that_does)
{
    f->options.frozen = 1;
    must(conv_find(f), f->err);
    struct kiln_conv_result *frozen = KILN_TAKE(f->result);
    f->options.frozen = 0;
    must(conv_find(f), f->err);
    WAIT_FOR(f->solutions_asked > 0);
    CONV_SWITCH(f, found);
    ++*f->counter;
    wait_until("a better plan", is_better, f);
    assert_true(refresh(f));
    must(kiln_conv_plan_refresh(f->client, frozen, NULL, &f->err), f->err);
    assert_string_equal(kiln_plan_solver(kiln_conv_result_plan(frozen)), "ConvGood");
    kiln_conv_result_free(frozen);
}

TEST_F(follow, a_job_that_records_nothing_does_not_follow_records)
{
    f->options.no_record = 1;
    must(conv_find(f), f->err);
    WAIT_FOR(f->watches_asked > 0);
    CONV_SWITCH(f, found);
    ++*f->counter;
    /* The thread comes to the second problem after the first one. */
    f->options.no_record = 0;
    must(conv_find(f), f->err);
    wait_until("a better plan of the second problem", is_better, f);
    assert_int_equal(f->plans, 2);
}

/* ---- the counter ---- */

TEST_F(follow, looking_at_the_counter_sends_no_request)
{
    struct follow follow = { .client = f->client };
    assert_true(follow_has_changed(&follow));
    for (unsigned i = 0; i < 1000; i++)
        assert_false(follow_has_changed(&follow));
    ++*f->counter;
    assert_true(follow_has_changed(&follow));
    assert_int_equal(f->daemon.requests, 1);
    follow_done(&follow);
}

TEST_F(follow, the_next_change_is_reported_after_a_rest)
{
    struct follow follow = { .client = f->client };
    assert_true(follow_has_changed(&follow));
    follow.looked_ns -= 5000000000; /* the requests took five seconds */
    follow_rest(&follow);
    ++*f->counter;
    assert_false(follow_has_changed(&follow));
    follow.next_ns = 0;
    assert_true(follow_has_changed(&follow));
    follow_done(&follow);
}

/* A thread of a job whose problems are tuned would otherwise wake for ever. */
TEST_F(follow, an_idle_thread_looks_less_and_less_often)
{
    struct follow follow = { .client = f->client };
    const uint64_t ms = 1000000;
    assert_true(follow_has_changed(&follow));
    assert_int_equal(follow_idle_ns(&follow), 250 * ms);
    assert_int_equal(follow_idle_ns(&follow), 500 * ms);
    for (unsigned i = 0; i < 10; i++)
        assert_true(follow_idle_ns(&follow) <= 4000 * ms);
    assert_int_equal(follow_idle_ns(&follow), 4000 * ms);
    ++*f->counter;
    assert_true(follow_has_changed(&follow));
    assert_int_equal(follow_idle_ns(&follow), 250 * ms);
    follow_done(&follow);
}

TEST_F(follow, a_thread_without_a_counter_does_not_wake_to_look)
{
    struct follow follow = { .client = f->client };
    f->counter_file = 0;
    assert_false(follow_has_changed(&follow));
    assert_int_equal(follow_idle_ns(&follow), 60000000000);
    follow_done(&follow);
}

static void ping(struct conv_fixture *f)
{
    struct kiln_plan *plan = NULL;
    const struct kiln_plan_options options = { .size = sizeof(options),
                                               .target = "gfx90a",
                                               .no_objects = 1 };
    must(kiln_plan_get(f->client, &f->problem, &options, &plan, &f->err), f->err);
    kiln_plan_unref(plan);
}

/* kilnd is killed and started again. The old file stays mapped until the client connects. */
TEST_F(follow, the_counter_of_a_killed_kilnd_is_replaced_after_reconnecting)
{
    struct follow follow = { .client = f->client };
    assert_true(follow_has_changed(&follow));
    fake_daemon_kill(&f->daemon);
    assert_false(follow_has_changed(&follow));
    assert_true(follow_is_possible(&follow));
    conv_offer_counter(f, 2 * FIRST);
    fake_daemon_start(&f->daemon);
    assert_false(follow_has_changed(&follow));
    ping(f);
    assert_true(follow_has_changed(&follow));
    assert_int_equal(watch_read(&follow.watch), 2 * FIRST);
    follow_done(&follow);
}

TEST_F(follow, an_idle_client_asks_a_restarted_kilnd_after_a_while)
{
    struct follow follow = { .client = f->client };
    assert_true(follow_has_changed(&follow));
    fake_daemon_kill(&f->daemon);
    conv_offer_counter(f, 2 * FIRST);
    fake_daemon_start(&f->daemon);
    follow.opened_ns = 0; /* a minute ago */
    assert_true(follow_has_changed(&follow));
    follow_done(&follow);
}

TEST_F(follow, a_kilnd_without_counters_is_not_followed)
{
    struct follow follow = { .client = f->client };
    f->counter_file = 0;
    assert_false(follow_has_changed(&follow));
    assert_false(follow_is_possible(&follow));
    follow_done(&follow);
}

/* A read of a file that was cut would end the job. */
TEST_F(follow, a_file_that_can_shrink_is_refused)
{
    static const uint8_t empty[TUNING_WATCH_SIZE];
    struct follow follow = { .client = f->client };
    int unsealed = fake_memfd(bytes_of(empty, sizeof(empty)), /* sealed= */ false);
    int sealed = f->counter_file;
    f->counter_file = unsealed;
    assert_false(follow_has_changed(&follow));
    assert_false(follow_is_possible(&follow));
    f->counter_file = sealed;
    close(unsealed);
    follow_done(&follow);
}

TEST_F(follow, a_file_that_is_too_short_is_refused)
{
    struct follow follow = { .client = f->client };
    int sealed = f->counter_file;
    f->counter_file = fake_memfd(bytes_of_text("short"), /* sealed= */ true);
    assert_false(follow_has_changed(&follow));
    assert_false(follow_is_possible(&follow));
    close(f->counter_file);
    f->counter_file = sealed;
    follow_done(&follow);
}
