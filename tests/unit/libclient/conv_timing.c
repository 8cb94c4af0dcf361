/* SPDX-License-Identifier: MIT */
/* How long something takes: samples, outliers, what is hopeless. */
#include "libclient/conv/timing.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

struct fixture {
    struct timing_source source;
    struct timing_limits limits;
    struct timing timing;
    struct kiln_err err;
    double one_ms;   /* of a launch */
    double first_ms; /* of the very first; 0: as the others */
    double jump_ms;  /* what every eighth sample takes longer */
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

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .source = { .launch = launch, .context = &f },
                          .limits = { .most_ms = 1000, .samples = 20 },
                          .one_ms = 1 };
    *state = &f;
    return 0;
}

static void take(struct fixture *f)
{
    must(timing_take(&f->source, &f->limits, &f->timing, &f->err), f->err);
}

static bool is_near(double a, double b) { return fabs(a - b) < 1e-9; }

/* ---- statistics ---- */

static void median_and_spread_are_of_the_middle(void **state)
{
    double five[] = { 5, 1, 4, 2, 3 };
    (void)state;
    struct timing t = timing_of(five, 5);
    assert_true(is_near(t.median_ms, 3));
    assert_true(is_near(t.spread_ms, 1)); /* quartiles 2 and 4 */
    assert_int_equal(t.samples, 5);
}

static void what_is_far_out_does_not_count(void **state)
{
    double samples[] = { 1.00, 1.01, 1.02, 1.01, 9.00, 1.00, 1.02, 0.10, 1.01 };
    (void)state;
    struct timing t = timing_of(samples, 9);
    assert_int_equal(t.samples, 7);
    assert_int_equal(t.outliers, 2);
    assert_true(is_near(t.median_ms, 1.01));
}

static void samples_that_are_all_alike_have_no_outlier_within_a_percent(void **state)
{
    double samples[] = { 2, 2, 2, 2, 2, 2, 2, 2.01 };
    (void)state;
    struct timing t = timing_of(samples, 8);
    assert_int_equal(t.outliers, 0);
    assert_true(is_near(t.spread_ms, 0));
}

static void one_sample_is_its_own_median(void **state)
{
    double one[] = { 7 };
    (void)state;
    struct timing t = timing_of(one, 1);
    assert_true(is_near(t.median_ms, 7) && is_near(t.spread_ms, 0));
    assert_int_equal(t.samples, 1);
}

/* ---- taking them ---- */

static void the_warm_up_does_not_count(void **state)
{
    struct fixture *f = *state;
    f->first_ms = 5000;
    f->limits.hopeless_ms = 2;
    take(f);
    assert_false(f->timing.is_cut_short);
    assert_true(is_near(f->timing.median_ms, 1));
    assert_int_equal(f->timing.samples, 20);
    assert_int_equal(f->launches, 21);
}

static void a_hopeless_one_is_launched_twice_and_never_more(void **state)
{
    struct fixture *f = *state;
    f->one_ms = 30;
    f->limits.hopeless_ms = 29;
    take(f);
    assert_true(f->timing.is_cut_short);
    assert_true(is_near(f->timing.median_ms, 30));
    assert_int_equal(f->timing.samples, 1);
    assert_int_equal(f->launches, 2);
}

/* Alone, a launch of 0.01 ms may show 0.04 ms. */
static void a_short_one_is_not_judged_by_its_way_to_the_device(void **state)
{
    struct fixture *f = *state;
    f->one_ms = 0.04;
    f->limits.hopeless_ms = 0.02;
    take(f);
    assert_false(f->timing.is_cut_short);
    f->one_ms = 0.08;
    take(f);
    assert_true(f->timing.is_cut_short);
}

static void short_launches_are_gathered_into_samples(void **state)
{
    struct fixture *f = *state;
    f->one_ms = 0.01;
    take(f);
    assert_true(is_near(f->timing.median_ms, 0.01));
    assert_int_equal(f->launches, 2 + 20 * 26); /* each sample a quarter of a millisecond */
}

static void the_shortest_are_gathered_up_to_a_limit(void **state)
{
    struct fixture *f = *state;
    f->one_ms = 1e-6;
    take(f);
    assert_int_equal(f->launches, 2 + 20 * 32);
}

static void no_sample_begins_after_the_time_is_spent(void **state)
{
    struct fixture *f = *state;
    f->one_ms = 10;
    f->limits.most_ms = 35;
    take(f);
    assert_int_equal(f->timing.samples, 4);
}

static void at_least_one_sample_is_taken(void **state)
{
    struct fixture *f = *state;
    f->limits.samples = 0;
    take(f);
    assert_int_equal(f->timing.samples, 1);
}

static void launches_that_were_disturbed_are_left_out(void **state)
{
    struct fixture *f = *state;
    f->jump_ms = 4;
    take(f);
    assert_int_equal(f->timing.outliers, 2);
    assert_true(is_near(f->timing.median_ms, 1));
}

static void a_failure_is_passed_on_whenever_it_happens(void **state)
{
    struct fixture *f = *state;
    for (unsigned at = 1; at <= 4; at++) {
        f->calls = 0;
        f->fails_at = at;
        assert_int_equal(timing_take(&f->source, &f->limits, &f->timing, &f->err), KILN_GPU_FAULT);
        assert_string_equal(f->err.text, "it fell over");
    }
}

#define T(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(median_and_spread_are_of_the_middle),
        T(what_is_far_out_does_not_count),
        T(samples_that_are_all_alike_have_no_outlier_within_a_percent),
        T(one_sample_is_its_own_median),
        T(the_warm_up_does_not_count),
        T(a_hopeless_one_is_launched_twice_and_never_more),
        T(a_short_one_is_not_judged_by_its_way_to_the_device),
        T(short_launches_are_gathered_into_samples),
        T(the_shortest_are_gathered_up_to_a_limit),
        T(no_sample_begins_after_the_time_is_spent),
        T(at_least_one_sample_is_taken),
        T(launches_that_were_disturbed_are_left_out),
        T(a_failure_is_passed_on_whenever_it_happens),
    };
    return cmocka_run_group_tests_name("conv_timing", tests, NULL, NULL);
}
