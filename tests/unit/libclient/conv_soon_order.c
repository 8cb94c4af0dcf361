/* SPDX-License-Identifier: MIT */
/* What the thread of KILN_FIND_SOON measures first, and after what it rests. */
#include "common/base/clock.h"
#include "libclient/conv/operands.h"
#include "libclient/conv/pace.h"
#include "libclient/conv/work.h"
#include "tests/support/test.h"
#include "tests/support/wait.h"
#include "tests/unit/libclient/conv_fixture.h"

SET_UP_OF(set_up, struct conv_fixture)
{
    conv_open(f);
    f->options.mode = KILN_FIND_SOON;
    test_unsetenv("KILN_PLANS");
    test_setenv("KILN_SOON_BUDGET", "1000"); /* without rests */
}

FIXTURE_OF(soon_order, struct conv_fixture, set_up, NULL);

static _Atomic uint64_t filled_ns; /* when the last tensor was filled */
static atomic_uint rests, rests_for_fills;
/* The problems that the thread has begun to measure, by their |n|; the first one waits until the
 * job has found all. */
static atomic_bool is_held;
static atomic_uint begun[8], begun_count, fills;

void __wrap_operands_fill(enum operands kind, const struct problem *problem, void *data,
                          uint64_t count, uint64_t seed);
void __real_operands_fill(enum operands kind, const struct problem *problem, void *data,
                          uint64_t count, uint64_t seed);
void __wrap_pace_stop(struct pace *pace);
void __real_pace_stop(struct pace *pace);
void __wrap_pace_rest(struct pace *pace, uint64_t began_ns);
void __real_pace_rest(struct pace *pace, uint64_t began_ns);

static void note_begun(unsigned n)
{
    unsigned last = begun_count;
    if (last == 8 || (last > 0 && begun[last - 1] == n))
        return;
    begun[last] = n;
    begun_count = last + 1;
}

void __wrap_operands_fill(enum operands kind, const struct problem *problem, void *data,
                          uint64_t count, uint64_t seed)
{
    __real_operands_fill(kind, problem, data, count, seed);
    filled_ns = clock_monotonic_ns();
    fills++;
    note_begun(problem->n);
    WAIT_FOR(!is_held);
}

void __wrap_pace_stop(struct pace *pace)
{
    __real_pace_stop(pace);
    is_held = false;
}

void __wrap_pace_rest(struct pace *pace, uint64_t began_ns)
{
    rests++;
    rests_for_fills += began_ns < filled_ns;
    __real_pace_rest(pace, began_ns);
}

static atomic_int find_limit_ms, tune_limit_ms, find_enforce, tune_enforce;

enum kiln_code __wrap_work_run(const struct work *given, const struct kiln_conv_options *options,
                               bool is_tune, struct kiln_conv_result **ret_result,
                               struct kiln_err *err);
enum kiln_code __real_work_run(const struct work *given, const struct kiln_conv_options *options,
                               bool is_tune, struct kiln_conv_result **ret_result,
                               struct kiln_err *err);

/* Sees only the calls of the thread. */
enum kiln_code __wrap_work_run(const struct work *given, const struct kiln_conv_options *options,
                               bool is_tune, struct kiln_conv_result **ret_result,
                               struct kiln_err *err)
{
    atomic_store(is_tune ? &tune_limit_ms : &find_limit_ms, options->budget_ms);
    atomic_store(is_tune ? &tune_enforce : &find_enforce, options->enforce);
    return __real_work_run(given, options, is_tune, ret_result, err);
}

static bool is_tuned(void *context)
{
    struct conv_fixture *f = context;
    struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
    must(kiln_conv_plan_refresh(f->client, f->result, &refreshed, &f->err), f->err);
    return refreshed.is_tuned;
}

/* To fill a large tensor takes the host as long as hundreds of launches take the device. */
TEST_F(soon_order, the_thread_does_not_rest_for_work_of_the_host)
{
    rests = 0;
    rests_for_fills = 0;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_true(rests > 0);
    assert_int_equal(rests_for_fills, 0);
}

static void find_batch(struct conv_fixture *f, uint32_t n)
{
    f->problem.n = n;
    must(conv_find(f), f->err);
}

/* Starts a thread that does not measure before the job has found all. */
static void hold_thread(struct conv_fixture *f)
{
    begun_count = 0;
    fills = 0;
    is_held = true;
    find_batch(f, 1);
    WAIT_FOR(begun_count == 1);
}

static void assert_begun(const unsigned *want, unsigned count)
{
    is_held = false;
    WAIT_FOR(begun_count == count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(begun[i], want[i]);
}

TEST_F(soon_order, large_problems_are_measured_first)
{
    hold_thread(f);
    find_batch(f, 2);
    find_batch(f, 3);
    assert_begun((const unsigned[]){ 1, 3, 2 }, 3);
}

/* A network may have many layers with the same problem. */
TEST_F(soon_order, a_problem_counts_as_often_as_the_job_finds_it)
{
    CONV_USE(f, conv_tunable);
    hold_thread(f);
    find_batch(f, 3);
    find_batch(f, 2);
    find_batch(f, 2);
    assert_begun((const unsigned[]){ 1, 2, 3, 2, 1, 3 }, 6);
}

/* Otherwise, the other problems of a large network would wait for hours. */
TEST_F(soon_order, a_tune_beside_a_job_is_short_unless_the_job_says_otherwise)
{
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_int_equal(find_limit_ms, 0);
    assert_int_equal(tune_limit_ms, 2000);
    f->problem.n++;
    f->options.budget_ms = 30000;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_int_equal(find_limit_ms, 0);
    assert_int_equal(tune_limit_ms, 30000);
}

/* Otherwise, the finds of other problems would wait for the tune. */
TEST_F(soon_order, a_find_beside_a_job_does_not_tune_even_if_that_is_enforced)
{
    f->options.enforce = KILN_ENFORCE_SEARCH;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_int_equal(find_enforce, KILN_ENFORCE_NONE);
    f->problem.n++;
    f->options.enforce = KILN_ENFORCE_SEARCH_DB_UPDATE;
    must(conv_find(f), f->err);
    wait_until("the end of tuning", is_tuned, f);
    assert_int_equal(find_enforce, KILN_ENFORCE_DB_UPDATE);
    assert_int_equal(tune_enforce, KILN_ENFORCE_SEARCH_DB_UPDATE);
}

/* A large tensor takes seconds. */
TEST_F(soon_order, the_end_of_a_job_waits_for_one_tensor_at_most)
{
    hold_thread(f);
    kiln_conv_result_free(KILN_TAKE(f->result));
    kiln_client_close(KILN_TAKE(f->client));
    assert_int_equal(fills, 1);
}

TEST(soon_order, budgets_count_no_rests)
{
    struct pace pace;
    pace_init(&pace, 500);
    const struct work work = { .pace = &pace };
    pace_rest(&pace, clock_monotonic_ns() - 20000000);
    uint64_t before = clock_monotonic_ns(), now = work_now(&work), after = clock_monotonic_ns();
    assert_true(pace.rested_ns >= 20000000);
    assert_true(now + pace.rested_ns >= before && now + pace.rested_ns <= after);
    assert_int_equal(work_real_ns(&work, now), now + pace.rested_ns);
    assert_int_equal(work_real_ns(&work, UINT64_MAX), UINT64_MAX);
    pace_done(&pace);
}

/* kilnd compiles kernels for the thread after those that jobs wait for. */
TEST_F(soon_order, budgets_count_no_waits_for_kernels)
{
    struct pace pace;
    struct plan_window *window;
    struct kiln_err err = KILN_ERR_INIT;
    const struct problem problem = { .n = 1 };
    struct work work = { .client = f->client, .device = (struct kiln_device *)f->device };
    const struct kiln_plan_options options = work_plan_options(&work, "ConvGood", NULL);
    struct planned unused = { .plan = NULL };
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    pace_init(&pace, 500);
    work.pace = &pace;
    f->silent_plans = true;
    must(plan_window_create(f->client, &problem, 1, &window, &err), err);
    must(plan_window_ask(window, &options, 0, &err), err);
    uint64_t deadline_ns = clock_monotonic_ns() + 20000000;
    assert_int_equal(work_next_plan(&work, window, deadline_ns, &unused, &failure), KILN_TIMED_OUT);
    assert_true(pace.rested_ns > 0);
    plan_window_destroy(window);
    pace_done(&pace);
}

TEST(soon_order, work_is_followed_by_a_rest_in_proportion)
{
    assert_int_equal(pace_rest_of(1000, 7000000), 0);
    assert_int_equal(pace_rest_of(500, 7000000), 7000000);
    assert_int_equal(pace_rest_of(50, 5000000), 95000000);
    assert_int_equal(pace_rest_of(1, 1000000), 999000000);
}
