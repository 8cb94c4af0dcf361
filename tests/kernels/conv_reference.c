/* SPDX-License-Identifier: MIT */
#include "cli/driver/reference.h"
#include "cli/driver/storage.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <string.h>

/* An example whose results are computed by hand: 3x3 image, 2x2 filter, a pad of 1 on every side,
 * stride 2. */
static struct kiln_problem by_hand(uint32_t direction)
{
    return (struct kiln_problem){ .size = sizeof(struct kiln_problem),
                                  .direction = direction,
                                  .spatial_dims = 2,
                                  .n = 1,
                                  .c = 1,
                                  .k = 1,
                                  .groups = 1,
                                  .in = { 1, 3, 3 },
                                  .filter = { 1, 2, 2 },
                                  .pad = { 0, 1, 1 },
                                  .stride = { 1, 2, 2 },
                                  .dilation = { 1, 1, 1 } };
}

static const double image[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
static const double filter[] = { 1, 10, 100, 1000 };
static const double output[] = { 1, 2, 3, 4 };

static void expect(const struct kiln_problem *problem, const double *want, size_t count)
{
    double result[16], magnitude[16];
    struct reference_tensors tensors = {
        .x = image, .w = filter, .y = output, .result = result, .magnitude = magnitude
    };
    assert_int_equal(reference_run(problem, &tensors, 2, NULL), KILN_E_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(result[i] == want[i]);
        assert_true(magnitude[i] == want[i]); /* equal, because no value is negative */
    }
}

TEST(plain, forward_slides_the_filter_unflipped_over_the_padded_image)
{
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    /* the four windows of x: (0 0 / 0 1), (0 0 / 2 3), (0 4 / 0 7), (5 6 / 8 9) */
    const double want[] = { 1000, 3200, 7040, 9865 };
    expect(&problem, want, 4);
}

TEST(plain, backward_data_spreads_each_output_over_its_window)
{
    struct kiln_problem problem = by_hand(KILN_BACKWARD_DATA);
    const double want[] = { 1000, 200, 2000, 30, 4, 40, 3000, 400, 4000 };
    expect(&problem, want, 9);
}

TEST(plain, backward_weights_sums_the_inputs_each_tap_met)
{
    struct kiln_problem problem = by_hand(KILN_BACKWARD_WEIGHTS);
    /* the pixels that each tap is multiplied with: tap 00: 0 0 0 5; 01: 0 0 4 6; 10: 0 2 0 8; 11: 1
     * 3 7 9 */
    const double want[] = { 4 * 5, 3 * 4 + 4 * 6, 2 * 2 + 4 * 8, 1 + 2 * 3 + 3 * 7 + 4 * 9 };
    expect(&problem, want, 4);
}

TEST(plain, dilation_spreads_the_taps_and_groups_keep_channels_apart)
{
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    problem.c = problem.k = problem.groups = 2;
    problem.in[1] = 1; /* two channels of 1x4 */
    problem.in[2] = 4;
    problem.filter[1] = 1;
    problem.pad[1] = problem.pad[2] = 0;
    problem.stride[2] = 1;
    problem.dilation[2] = 2;
    const double want[] = { 31, 42, 5 * 100 + 7 * 1000, 6 * 100 + 8 * 1000 };
    expect(&problem, want, 4);
}

TEST(plain, layouts_only_change_the_positions_of_elements)
{
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    problem.c = problem.k = 2;
    problem.in[1] = problem.in[2] = problem.filter[1] = problem.filter[2] = 1;
    problem.in[2] = 2;
    problem.pad[1] = problem.pad[2] = 0;
    problem.stride[1] = problem.stride[2] = 1;
    /* x has the channels c0 = 1 2 and c1 = 3 4; w has k0 = 1 10 and k1 = 100 1000 */
    const double first[] = { 31, 42, 3100, 4200 };
    const double last[] = { 31, 3100, 42, 4200 };
    expect(&problem, first, 4);
    problem.y_layout = KILN_CHANNELS_LAST;
    expect(&problem, last, 4);
    /* with this layout, x has the channels c0 = 1 3 and c1 = 2 4 */
    problem.x_layout = KILN_CHANNELS_LAST;
    const double swapped[] = { 21, 2100, 43, 4300 };
    expect(&problem, swapped, 4);
}

TEST(plain, the_number_of_threads_changes_nothing)
{
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    enum { SIDE = 40 };
    double x[SIDE * SIDE], one[SIDE * SIDE], many[SIDE * SIDE];
    for (size_t i = 0; i < SIDE * SIDE; i++)
        x[i] = (double)(i % 17) - 8;
    problem.in[1] = problem.in[2] = SIDE;
    struct reference_tensors tensors = { .x = x, .w = filter, .result = one };
    assert_int_equal(reference_run(&problem, &tensors, 1, NULL), KILN_E_OK);
    tensors.result = many;
    assert_int_equal(reference_run(&problem, &tensors, 7, NULL), KILN_E_OK);
    assert_memory_equal(one, many, 21 * 21 * sizeof(double));
}

struct stored {
    uint32_t type;
    double value;
    uint16_t bits;
};

TEST(plain, stores_round_to_nearest_with_ties_to_even)
{
    static const struct stored cases[] = {
        { KILN_FLOAT16, 1, 0x3c00 },
        { KILN_FLOAT16, -2, 0xc000 },
        { KILN_FLOAT16, 1 + 0x1p-11, 0x3c00 },           /* halfway, rounds down to even */
        { KILN_FLOAT16, 1 + 0x3p-11, 0x3c02 },           /* halfway, rounds up to even */
        { KILN_FLOAT16, 1 + 0x1p-11 + 0x1p-40, 0x3c01 }, /* halfway if first rounded to float */
        { KILN_FLOAT16, 65504, 0x7bff },                 /* the largest */
        { KILN_FLOAT16, 65519.9, 0x7bff },
        { KILN_FLOAT16, 65520, 0x7c00 },   /* infinity */
        { KILN_FLOAT16, 0x1p-24, 0x0001 }, /* the smallest subnormal */
        { KILN_FLOAT16, 0x1p-25, 0x0000 }, /* halfway, rounds to zero */
        { KILN_FLOAT16, 0x1.8p-25, 0x0001 },
        { KILN_FLOAT16, 0x1p-14, 0x0400 },           /* the smallest normal */
        { KILN_FLOAT16, 0x1p-14 - 0x1p-26, 0x0400 }, /* rounds up to the smallest normal */
        { KILN_BFLOAT16, 1, 0x3f80 },
        { KILN_BFLOAT16, 1 + 0x1p-8, 0x3f80 },
        { KILN_BFLOAT16, 1 + 0x3p-8, 0x3f82 },
        { KILN_BFLOAT16, 1 + 0x1p-8 + 0x1p-40, 0x3f81 },
        { KILN_BFLOAT16, 0x1.fep127, 0x7f7f },
        { KILN_BFLOAT16, 0x1.ffp127, 0x7f80 },
        { KILN_BFLOAT16, -0x1p-133, 0x8001 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint16_t bits = 0xdead;
        storage_store(cases[i].type, &bits, 0, cases[i].value);
        assert_int_equal(bits, cases[i].bits);
    }
}

TEST(plain, every_16_bit_value_survives_a_load_and_a_store)
{
    for (uint32_t type = KILN_FLOAT16; type <= KILN_BFLOAT16; type++) {
        for (unsigned i = 0; i < 65536; i++) {
            uint16_t before = (uint16_t)i, after = 0;
            double value = storage_load(type, &before, 0);
            storage_store(type, &after, 0, value);
            assert_true(after == before || value != value);
            assert_true(value == value || storage_load(type, &after, 0) != value);
        }
    }
}

static struct reference_verdict judge(const float got[4], double quantum)
{
    static const double want[4] = { 1, 2, 3, 4 }, magnitude[4] = { 1, 2, 3, 4 };
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    struct rounding rounding = rounding_of(&problem, NULL, NULL, quantum);
    return reference_compare(&problem, got, want, magnitude, &rounding);
}

TEST(plain, exact_data_must_come_out_exact)
{
    const float right[4] = { 1, 2, 3, 4 }, off[4] = { 1, 2, 3.0000002f, 4 };
    assert_int_equal(judge(right, STORAGE_QUANTUM).wrong, 0);
    assert_int_equal(judge(off, 0).wrong, 0);
    struct reference_verdict verdict = judge(off, STORAGE_QUANTUM);
    assert_int_equal(verdict.wrong, 1);
    assert_int_equal(verdict.index, 2);
    assert_true(verdict.want == 3);
    assert_true(verdict.bound == 0);
}

TEST(plain, an_unwritten_element_is_wrong)
{
    float got[4] = { 1, 2, 3, 4 };
    memset(&got[1], 0xff, sizeof(got[1]));
    struct reference_verdict verdict = judge(got, 0);
    assert_int_equal(verdict.wrong, 1);
    assert_int_equal(verdict.index, 1);
    assert_true(verdict.got != verdict.got);
}

static double bound_of(const struct kiln_problem *problem, const char *solver, const char *config)
{
    struct rounding rounding = rounding_of(problem, solver, config, 0);
    return rounding_bound(&rounding, 1);
}

TEST(plain, the_bound_grows_with_the_terms_but_not_in_proportion)
{
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    double four_terms = bound_of(&problem, NULL, NULL);
    problem.c = 250000;
    double million_terms = bound_of(&problem, NULL, NULL);
    assert_true(four_terms >= 4 * 0x1p-24 && four_terms < 8 * 0x1p-24);
    assert_true(million_terms > 1000 * 0x1p-24 && million_terms < 10000 * 0x1p-24);
}

TEST(plain, winograd_may_round_more_with_larger_tiles_and_never_as_much_as_a_term)
{
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    problem.c = 2048;
    double small = bound_of(&problem, "ConvWinograd", "2,1");
    double large = bound_of(&problem, "ConvWinograd", "4,1");
    double least_term = 1.0 / 16 / 16;
    assert_true(small > 2048 * 0x1p-24 && small < large);
    assert_true(large == bound_of(&problem, "ConvWinograd", NULL));
    assert_true(large < 8 * least_term); /* small compared with 1/4, the mean size of a term */
}

TEST(plain, winograd_s_backward_weights_round_with_the_tiles_of_all_images)
{
    struct kiln_problem problem = by_hand(KILN_BACKWARD_WEIGHTS);
    problem.n = 64;
    problem.in[1] = problem.in[2] = 28;
    double large = bound_of(&problem, "ConvWinograd", "4,64,64");
    double any = bound_of(&problem, "ConvWinograd", NULL);
    double more_channels = (problem.c *= 8, bound_of(&problem, "ConvWinograd", "4,64,64"));
    double more_images = (problem.n *= 8, bound_of(&problem, "ConvWinograd", "4,64,64"));
    /* with these tiles, each sum has fewer terms than with 2x2 tiles */
    assert_true(large < any);
    assert_true(large == more_channels);
    assert_true(more_images > 4 * large && more_images < 8 * large);
}

TEST(plain, tf32_may_round_operands_but_not_exact_data_and_only_where_it_is_used)
{
    struct kiln_problem problem = by_hand(KILN_FORWARD);
    double exact = bound_of(&problem, "ConvImplicitGemm", NULL);
    problem.allow_tf32 = 1;
    double few = bound_of(&problem, "ConvImplicitGemm", NULL);
    assert_true(few > 0x1p-10 && few < 0x1.1p-10 + exact);
    assert_true(bound_of(&problem, "ConvDirectNaive", NULL) == exact);
    problem.c = 1024; /* 4 * 1024 terms with a mean size of 1/4 */
    struct rounding many = rounding_of(&problem, "ConvImplicitGemm", NULL, 0);
    double at_the_mean = rounding_bound(&many, 1024);
    assert_true(at_the_mean > 8 * 0x1p-10 * 32 && at_the_mean < 0.3);
    struct rounding of_exact_data = rounding_of(&problem, NULL, NULL, STORAGE_QUANTUM);
    assert_true(rounding_bound(&of_exact_data, 1024) == 0);
}

TEST(plain, fill_makes_no_zero_and_never_the_same_twice)
{
    uint16_t one[256], other[256];
    storage_fill(KILN_BFLOAT16, one, 256, 1);
    storage_fill(KILN_BFLOAT16, other, 256, 2);
    assert_memory_not_equal(one, other, sizeof(one));
    for (unsigned i = 0; i < 256; i++) {
        double value = storage_load(KILN_BFLOAT16, one, i);
        assert_true(value != 0 && value > -1 && value < 1);
        assert_true(value * 16 == (double)(int)(value * 16) && (int)(value * 16) % 2);
    }
}
