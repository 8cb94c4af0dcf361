/* SPDX-License-Identifier: MIT */
#include "libclient/conv/timing.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

struct fixture {
    struct timing_source source;
    struct timing_limits limits;
    struct timing timing;
    struct kiln_err err;
    double one_ms;   /* time of a launch */
    double first_ms; /* time of the first launch; 0 means |one_ms| */
    double jump_ms;  /* every eighth sample takes this much longer */
    unsigned calls, launches, fails_at;
};

static enum kiln_code launch(void *context, unsigned launches, double *ret_ms, struct kiln_err *err)
{
    struct fixture *f = context;
    f->calls++;
    f->launches += launches;
    if (f->fails_at == f->calls)
        return kiln_fail(err, KILN_GPU_FAULT, "it fell over");
    *ret_ms = f->one_ms * launches + (f->calls % 8 == 0 ? f->jump_ms : 0);
    if (f->calls == 1 && f->first_ms > 0)
        *ret_ms = f->first_ms;
    return KILN_OK;
}

SET_UP(set_up)
{
    *f = (struct fixture){ .source = { .launch = launch, .context = f },
                           .limits = { .limit_ms = 1000, .samples = 20 },
                           .one_ms = 1 };
}

FIXTURE(conv_timing, set_up, NULL);

static void take(struct fixture *f)
{
    must(timing_take(&f->source, &f->limits, &f->timing, &f->err), f->err);
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-9; }

TEST(conv_timing, median_and_spread_come_from_the_quartiles)
{
    double five[] = { 5, 1, 4, 2, 3 };
    struct timing t = timing_of(five, 5);
    assert_true(is_near(t.median_ms, 3));
    assert_true(is_near(t.spread_ms, 1)); /* half the distance between the quartiles 2 and 4 */
    assert_int_equal(t.samples, 5);
}

TEST(conv_timing, outliers_among_timings_do_not_count)
{
    double samples[] = { 1.00, 1.01, 1.02, 1.01, 9.00, 1.00, 1.02, 0.10, 1.01 };
    struct timing t = timing_of(samples, 9);
    assert_int_equal(t.samples, 7);
    assert_true(is_near(t.median_ms, 1.01));
}

TEST(conv_timing, samples_that_are_all_alike_have_no_outlier_within_a_percent)
{
    double samples[] = { 2, 2, 2, 2, 2, 2, 2, 2.01 };
    struct timing t = timing_of(samples, 8);
    assert_int_equal(t.samples, 8);
    assert_true(t.spread_ms > 0); /* kilnd refuses measurements with a spread of 0 */
    assert_true(t.spread_ms < 1e-3);
}

TEST(conv_timing, one_sample_is_its_own_median)
{
    double one[] = { 7 };
    struct timing t = timing_of(one, 1);
    assert_true(is_near(t.median_ms, 7) && is_near(t.spread_ms, 0));
    assert_int_equal(t.samples, 1);
}

TEST_F(conv_timing, the_warm_up_does_not_count)
{
    f->first_ms = 5000;
    f->limits.hopeless_ms = 2;
    take(f);
    assert_false(f->timing.is_cut_short);
    assert_true(is_near(f->timing.median_ms, 1));
    assert_int_equal(f->timing.samples, 20);
    assert_int_equal(f->launches, 21);
}

TEST_F(conv_timing, a_hopeless_candidate_is_launched_only_twice)
{
    f->one_ms = 30;
    f->limits.hopeless_ms = 29;
    take(f);
    assert_true(f->timing.is_cut_short);
    assert_true(is_near(f->timing.median_ms, 30));
    assert_int_equal(f->timing.samples, 1);
    assert_int_equal(f->launches, 2);
}

/* A kernel of 0.01 ms can take 0.04 ms when a single launch is measured. */
TEST_F(conv_timing, a_short_kernel_is_not_judged_by_its_launch_latency)
{
    f->one_ms = 0.04;
    f->limits.hopeless_ms = 0.02;
    take(f);
    assert_false(f->timing.is_cut_short);
    f->one_ms = 0.08;
    take(f);
    assert_true(f->timing.is_cut_short);
}

TEST_F(conv_timing, short_launches_are_gathered_into_samples)
{
    f->one_ms = 0.01;
    take(f);
    assert_true(is_near(f->timing.median_ms, 0.01));
    assert_int_equal(f->launches, 2 + 20 * 26); /* each sample takes 0.25 ms */
}

TEST_F(conv_timing, the_shortest_are_gathered_up_to_a_limit)
{
    f->one_ms = 1e-6;
    take(f);
    assert_int_equal(f->launches, 2 + 20 * 32);
}

TEST_F(conv_timing, no_sample_begins_after_the_time_is_spent)
{
    f->one_ms = 10;
    f->limits.limit_ms = 35;
    take(f);
    assert_int_equal(f->timing.samples, 4);
}

TEST_F(conv_timing, a_slower_candidate_is_sampled_less_often)
{
    f->limits.slower_ms = 0.99;
    take(f);
    assert_int_equal(f->timing.samples, 5);
    assert_true(is_near(f->timing.median_ms, 1));
    f->limits.slower_ms = 1;
    take(f);
    assert_int_equal(f->timing.samples, 20);
}

/* The other samples may be disturbed by other work on the device. */
TEST_F(conv_timing, a_fast_sample_makes_all_samples_worth_taking)
{
    f->one_ms = 4;
    f->limits.slower_ms = 3;
    f->jump_ms = -1;
    f->calls = 4; /* the eighth call is the third sample, and takes 3 ms */
    take(f);
    assert_int_equal(f->calls, 4 + 1 + 20);
}

TEST_F(conv_timing, at_least_one_sample_is_taken)
{
    f->limits.samples = 0;
    take(f);
    assert_int_equal(f->timing.samples, 1);
}

TEST_F(conv_timing, launches_that_were_disturbed_are_left_out)
{
    f->jump_ms = 4;
    take(f);
    assert_int_equal(f->timing.samples, 18);
    assert_true(is_near(f->timing.median_ms, 1));
}

TEST_F(conv_timing, a_launch_that_fails_ends_the_timing_with_its_error)
{
    for (unsigned at = 1; at <= 4; at++) {
        f->calls = 0;
        f->fails_at = at;
        assert_int_equal(timing_take(&f->source, &f->limits, &f->timing, &f->err), KILN_GPU_FAULT);
        assert_string_equal(f->err.text, "it fell over");
    }
}
