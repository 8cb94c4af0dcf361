/* SPDX-License-Identifier: MIT */
#include "engine/tuning/claim.h"
#include "engine/miopen/problem_key.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

/* 64 images of 64 channels, 56x56, 3x3 filters, in fp32. With the products of the padding, these
 * are 14.8 GFLOP. */
static struct problem problem_3x3(void)
{
    return (struct problem){ .spatial_dims = 2,
                             .n = 64,
                             .c = 64,
                             .k = 64,
                             .groups = 1,
                             .in = { 1, 56, 56 },
                             .filter = { 1, 3, 3 },
                             .pad = { 0, 1, 1 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
}

static struct tuning_measurement measured(double median_ms, double spread_ms, uint32_t samples)
{
    return (struct tuning_measurement){ .samples = samples,
                                        .median_ms = median_ms,
                                        .spread_ms = spread_ms };
}

static enum kiln_code check_for(const struct problem *problem, struct tuning_measurement measured,
                                struct kiln_err *err)
{
    *err = KILN_ERR_INIT;
    return claim_check(problem, &measured, err);
}

TEST(plain, a_problem_takes_at_least_its_bytes_or_its_products)
{
    struct problem p = problem_3x3();
    const double bytes = 4.0 * (2.0 * 64 * 64 * 56 * 56 + 64 * 64 * 9);
    assert_true(fabs(claim_floor_ms(&p) - bytes / 20e9) < 1e-9);

    p.c = p.k = 1024; /* now the products take longer than reading and writing the tensors */
    /* along an axis: number of outputs for which a tap is inside the image, added up for the three
     * taps */
    const double axis = 56 + 55 + 55;
    const double flops = 2.0 * 64 * 1024 * 1024 * axis * axis;
    assert_true(fabs(claim_floor_ms(&p) - flops / 5e12) < 1e-9);
}

TEST(plain, products_with_padding_take_no_time)
{
    struct problem p = problem_3x3(), alone = p;
    p.in = alone.in = (struct extent){ 1, 1, 1 };
    p.n = alone.n = 1 << 16;
    alone.filter = (struct extent){ 1, 1, 1 };
    alone.pad = (struct extent){ 0, 0, 0 };

    assert_true(fabs(claim_floor_ms(&p) - claim_floor_ms(&alone)) < 1e-12);
}

TEST(plain, a_floor_is_positive_for_strides_dilations_and_large_filters)
{
    struct problem p = problem_3x3();
    p.stride = (struct extent){ 1, 7, 9 };
    p.dilation = (struct extent){ 1, 5, 3 };
    double small = claim_floor_ms(&p);
    assert_true(small > 0);
    p.in = (struct extent){ 1, 4096, 1 };
    p.filter = (struct extent){ 1, 60000, 1 };
    p.pad = (struct extent){ 0, 40000, 0 };
    p.n = 1;
    p.dilation = p.stride = (struct extent){ 1, 1, 1 };
    assert_true(claim_floor_ms(&p) > 0);
    assert_true(claim_floor_ms(&p) < problem_flops(&p) / 5e12);
}

TEST(plain, a_median_below_the_floor_is_refused)
{
    struct kiln_err err;
    struct problem p = problem_3x3();
    double floor_ms = claim_floor_ms(&p);

    assert_int_equal(check_for(&p, measured(floor_ms * 0.99, 0.001, 9), &err), KILN_INVALID);
    assert_says(err.text, "20 TB/s");
    assert_int_equal(check_for(&p, measured(0, 0.001, 9), &err), KILN_INVALID);
    assert_int_equal(check_for(&p, measured(NAN, 0.001, 9), &err), KILN_INVALID);
    must(check_for(&p, measured(floor_ms * 1.01, 0.001, 9), &err), err);
    must(check_for(NULL, measured(1e-6, 1e-7, 9), &err), err);
}

TEST(plain, more_samples_than_an_hour_allows_are_refused)
{
    struct kiln_err err;
    struct problem p = problem_3x3();
    assert_int_equal(check_for(&p, measured(1, 0.1, 3600001), &err), KILN_INVALID);
    assert_says(err.text, "hour");
    assert_int_equal(check_for(NULL, measured(1e-6, 1e-7, 4000000000u), &err), KILN_INVALID);
    must(check_for(&p, measured(1, 0.1, 3600000), &err), err);
    must(check_for(&p, measured(1e8, 0, 1), &err), err); /* a single sample may take any time */
}

TEST(plain, several_samples_without_a_spread_are_refused)
{
    struct kiln_err err;
    struct problem p = problem_3x3();
    assert_int_equal(check_for(&p, measured(1, 0, 2), &err), KILN_INVALID);
    assert_says(err.text, "spread");
    must(check_for(&p, measured(1, 1e-6, 2), &err), err);
    must(check_for(&p, measured(1, 0, 1), &err), err);
    must(check_for(&p, measured(0, 0, 0), &err), err); /* an imported record states no samples */
}

TEST(plain, an_imported_time_is_above_the_floor_or_0)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct problem p = problem_3x3();
    const double floor_ms = claim_floor_ms(&p);
    must(claim_check_time(floor_ms, 0, &err), err);
    must(claim_check_time(floor_ms, 0.1, &err), err);
    must(claim_check_time(0, 1e-9, &err), err); /* an unknown problem has a floor of 0 */
    assert_int_equal(claim_check_time(floor_ms, 1e-6, &err), KILN_INVALID);
}

TEST(plain, the_problem_of_a_key_is_found_in_either_form)
{
    char key[PROBLEM_KEY_MAX];
    struct problem p = problem_3x3(), found;
    size_t size = find_key_write(&p, key);
    assert_true(claim_problem(TUNING_FIND, bytes_of(key, size), &found));
    assert_true(problem_equal(&p, &found));
    assert_true(claim_problem(TUNING_PERF, bytes_of(key, size), &found));
    size = perf_key_write(&p, key);
    assert_true(claim_problem(TUNING_PERF, bytes_of(key, size), &found));
    assert_false(claim_problem(TUNING_FIND, bytes_of_text("some text"), &found));
}
