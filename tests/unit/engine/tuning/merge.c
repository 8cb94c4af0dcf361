/* SPDX-License-Identifier: MIT */
#include "engine/tuning/merge.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

static struct tuning_row measured(const char *values, double median, double spread,
                                  uint32_t samples)
{
    return (struct tuning_row){
        .id = bytes_of_text("ConvAsm3x3U"),
        .values = bytes_of_text(values),
        .measured = { .origin = { .device_uuid = "GPU-1",
                                  .device = "gfx90a",
                                  .driver = "6.2",
                                  .toolchain = "hiprtc 6.2",
                                  .library = "libkiln" },
                      .samples = samples,
                      .median_ms = median,
                      .spread_ms = spread,
                      .measured_at = 1000,
                      .uid = 1000 },
    };
}

static struct tuning_row imported(const char *values)
{
    return (struct tuning_row){ .id = bytes_of_text("ConvAsm3x3U"),
                                .values = bytes_of_text(values),
                                .measured.origin = { "", "", "", "", "MIOpen", 0 } };
}

#define FIND "1.0,0,miopenConvolutionFwdAlgoDirect"
#define FIND_SLOWER "2.0,0,miopenConvolutionFwdAlgoDirect"

TEST(plain, the_same_twice_changes_nothing)
{
    struct tuning_row a = measured(FIND, 1, 0.1, 10), b = a;
    assert_int_equal(measurement_merge(TUNING_FIND, &a, &b).result, MERGE_SAME);
    assert_int_equal(a.measured.samples, 10);
}

TEST(plain, overlapping_measurements_are_pooled_by_samples)
{
    struct tuning_row a = measured(FIND, 1.0, 0.1, 30), b = measured(FIND, 1.1, 0.1, 10);
    b.measured.measured_at = 2000;
    b.measured.uid = 1001;

    struct merge merge = measurement_merge(TUNING_FIND, &a, &b);

    assert_int_equal(merge.result, MERGE_POOLED);
    assert_false(merge.is_conflict);
    assert_true(fabs(a.measured.median_ms - 1.025) < 1e-9);
    assert_true(a.measured.spread_ms > 0.1 && a.measured.spread_ms < 0.12);
    assert_int_equal(a.measured.samples, 40);
    assert_int_equal(a.measured.measured_at, 2000);
    assert_int_equal(a.measured.uid, 1001);
}

TEST(plain, apart_the_one_with_more_samples_counts_and_is_a_conflict)
{
    struct tuning_row a = measured(FIND, 1.0, 0.1, 5), b = measured(FIND_SLOWER, 2.0, 0.1, 50);

    struct merge merge = measurement_merge(TUNING_FIND, &a, &b);

    assert_int_equal(merge.result, MERGE_TAKEN);
    assert_true(merge.is_conflict);
    assert_non_null(strstr(merge.why, "1 ms (5 samples"));
    assert_says(merge.why, "more samples");
    assert_true(a.measured.median_ms == 2.0);
    assert_true(bytes_equal_text(a.values, FIND_SLOWER));
}

TEST(plain, with_as_many_samples_the_smaller_spread_counts_then_the_newer)
{
    struct tuning_row a = measured(FIND, 1.0, 0.1, 5), b = measured(FIND_SLOWER, 2.0, 0.1, 5);
    assert_int_equal(measurement_merge(TUNING_FIND, &a, &b).result, MERGE_TAKEN);

    a = measured(FIND, 1.0, 0.05, 5);
    struct merge merge = measurement_merge(TUNING_FIND, &a, &b);
    assert_non_null(strstr(merge.why, "newer"));
    assert_int_equal(merge.result, MERGE_KEPT);
    b.measured.measured_at = 1001;
    assert_int_equal(measurement_merge(TUNING_FIND, &a, &b).result, MERGE_TAKEN);
}

TEST(plain, another_driver_is_never_pooled)
{
    struct tuning_row a = measured(FIND, 1.0, 0.1, 10), b = measured(FIND, 1.0, 0.1, 11);
    b.measured.origin.driver = "6.3";

    struct merge merge = measurement_merge(TUNING_FIND, &a, &b);

    assert_int_equal(merge.result, MERGE_TAKEN);
    assert_false(merge.is_conflict);
    assert_string_equal(a.measured.origin.driver, "6.3");
    assert_int_equal(a.measured.samples, 11);
}

TEST(plain, measured_wins_over_imported_whichever_comes_first)
{
    struct tuning_row a = imported(FIND), b = measured(FIND_SLOWER, 2.0, 0.1, 3);
    assert_int_equal(measurement_merge(TUNING_FIND, &a, &b).result, MERGE_TAKEN);
    assert_int_equal(a.measured.samples, 3);

    struct tuning_row c = imported(FIND);
    assert_int_equal(measurement_merge(TUNING_FIND, &a, &c).result, MERGE_KEPT);
    assert_int_equal(a.measured.samples, 3);
}

TEST(plain, the_faster_of_two_imported_times_counts_and_a_large_gap_is_reported)
{
    struct tuning_row a = imported(FIND_SLOWER), b = imported(FIND);
    struct merge merge = measurement_merge(TUNING_FIND, &a, &b);
    assert_int_equal(merge.result, MERGE_TAKEN);
    assert_true(merge.is_conflict);

    a = imported("1.01,0,miopenConvolutionFwdAlgoDirect");
    merge = measurement_merge(TUNING_FIND, &a, &b);
    assert_int_equal(merge.result, MERGE_TAKEN);
    assert_false(merge.is_conflict);
}

TEST(plain, existing_imported_parameters_stay_and_the_conflict_is_reported)
{
    struct tuning_row a = imported("1,2,3"), b = imported("4,5,6");

    struct merge merge = measurement_merge(TUNING_PERF, &a, &b);

    assert_int_equal(merge.result, MERGE_KEPT);
    assert_true(merge.is_conflict);
    assert_true(bytes_equal_text(a.values, "1,2,3"));
}

TEST(plain, other_parameters_compete_by_their_medians)
{
    struct tuning_row a = measured("1,2,3", 2.0, 0.1, 50), b = measured("4,5,6", 1.0, 0.1, 5);

    struct merge merge = measurement_merge(TUNING_PERF, &a, &b);

    assert_int_equal(merge.result, MERGE_TAKEN);
    assert_false(merge.is_conflict);
    assert_true(bytes_equal_text(a.values, "4,5,6"));
    b = measured("7,8,9", 1.05, 0.1, 4); /* the difference is within the spread */
    assert_int_equal(measurement_merge(TUNING_PERF, &a, &b).result, MERGE_KEPT);
}

TEST(plain, other_solvers_of_one_algorithm_compete_by_their_times)
{
    struct tuning_row a = imported("ConvAsm3x3U,2.0,0,miopenConvolutionFwdAlgoDirect,<unused>");
    struct tuning_row b =
        imported("ConvOclDirectFwd,1.0,0,miopenConvolutionFwdAlgoDirect,<unused>");
    a.id = b.id = bytes_of_text("miopenConvolutionFwdAlgoDirect");
    a.measured.samples = b.measured.samples = 5;
    a.measured.median_ms = 2.0;
    b.measured.median_ms = 1.0;

    struct merge merge = measurement_merge(TUNING_FIND, &a, &b);

    assert_int_equal(merge.result, MERGE_TAKEN); /* samples of two solvers are not pooled */
    assert_false(merge.is_conflict);
    assert_true(bytes_equal(a.values, b.values));
}

TEST(plain, samples_stay_within_their_bound)
{
    struct tuning_row a = measured(FIND, 1.0, 0.1, MERGE_SAMPLES_MAX), b = a;
    b.measured.samples = 0xffffffffu;
    assert_int_equal(measurement_merge(TUNING_FIND, &a, &b).result, MERGE_POOLED);
    assert_int_equal(a.measured.samples, MERGE_SAMPLES_MAX);
}

TEST(plain, huge_values_are_pooled_without_overflow)
{
    struct tuning_row a = measured(FIND, 1.0, 1e200, 10), b = measured(FIND, 2.0, 1e200, 10);
    assert_int_equal(measurement_merge(TUNING_FIND, &a, &b).result, MERGE_POOLED);
    assert_true(fabs(a.measured.spread_ms / 1e200 - 1) < 1e-9);
}

TEST(plain, a_pooled_value_that_is_no_number_is_reported_and_changes_nothing)
{
    struct tuning_row a = measured(FIND, 1.0, 0.1, 10), b = measured(FIND, 2.0, INFINITY, 10);
    struct merge merge = measurement_merge(TUNING_FIND, &a, &b);
    assert_int_equal(merge.result, MERGE_KEPT);
    assert_true(merge.is_conflict);
    assert_non_null(strstr(merge.why, "cannot be combined"));
    assert_true(a.measured.median_ms == 1.0 && a.measured.spread_ms == 0.1);
    assert_int_equal(a.measured.samples, 10);
}
