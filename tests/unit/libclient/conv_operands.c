/* SPDX-License-Identifier: MIT */
#include "libclient/conv/operands.h"
#include "tests/support/test.h"
#include "tests/support/test_problem.h"

#include <math.h>
#include <string.h>

#define COUNT 4096u

struct fixture {
    struct problem problem;
    float x[COUNT], w[COUNT];
    uint16_t half[COUNT], other[COUNT];
};

SET_UP(set_up)
{
    f->problem = test_problem(2);
    f->problem.c = 64;
    f->problem.k = 32;
}

FIXTURE(conv_operands, set_up, NULL);

TEST_F(conv_operands, sums_of_exact_products_are_the_same_in_any_order)
{
    float up = 0, down = 0;
    operands_fill(OPERANDS_EXACT, &f->problem, f->x, COUNT, 1);
    operands_fill(OPERANDS_EXACT, &f->problem, f->w, COUNT, 2);
    for (unsigned i = 0; i < COUNT; i++) {
        up += f->x[i] * f->w[i];
        down += f->x[COUNT - 1 - i] * f->w[COUNT - 1 - i];
        assert_true(f->x[i] != 0 && fabsf(f->x[i]) < 1);
        assert_true(f->x[i] * 16 == rintf(f->x[i] * 16));
    }
    assert_true(up == down);
}

/* If the operands were multiples of 1/16, sums of this length would be rounded. */
TEST_F(conv_operands, longer_sums_get_coarser_operands)
{
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.n = 64;
    f->problem.in = (struct extent){ 1, 112, 112 };
    operands_fill(OPERANDS_EXACT, &f->problem, f->x, COUNT, 1);
    for (unsigned i = 0; i < COUNT; i++)
        assert_true(f->x[i] * 8 == rintf(f->x[i] * 8));
}

TEST_F(conv_operands, general_operands_have_all_their_bits)
{
    unsigned full = 0;
    operands_fill(OPERANDS_GENERAL, &f->problem, f->x, COUNT, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, &f->x[i], sizeof(bits));
        full += bits & 1;
        assert_true(fabsf(f->x[i]) >= 0.0625F && fabsf(f->x[i]) < 1);
    }
    assert_in_range(full, COUNT / 3, 2 * COUNT / 3);
}

TEST_F(conv_operands, half_and_brain_floats_are_converted_exactly)
{
    static const enum data_type types[] = { TYPE_FLOAT16, TYPE_BFLOAT16 };
    for (unsigned t = 0; t < 2; t++) {
        for (enum operands kind = OPERANDS_EXACT; kind <= OPERANDS_GENERAL; kind++) {
            f->problem.type = types[t];
            operands_fill(kind, &f->problem, f->half, COUNT, 1);
            double largest = operands_largest(types[t], f->half, COUNT);
            assert_true(largest < 1 && largest > 0.9);
        }
    }
    static const uint16_t one[] = { 0x3c00 }, brain_one[] = { 0x3f80 };
    assert_true(operands_largest(TYPE_FLOAT16, one, 1) == 1);
    assert_true(operands_largest(TYPE_BFLOAT16, brain_one, 1) == 1);
}

TEST_F(conv_operands, another_seed_is_other_data)
{
    operands_fill(OPERANDS_EXACT, &f->problem, f->x, COUNT, 1);
    operands_fill(OPERANDS_EXACT, &f->problem, f->w, COUNT, 1);
    assert_memory_equal(f->x, f->w, sizeof(f->x));
    operands_fill(OPERANDS_EXACT, &f->problem, f->w, COUNT, 2);
    assert_memory_not_equal(f->x, f->w, sizeof(f->x));
}

TEST_F(conv_operands, nan_and_infinity_count_as_infinitely_large)
{
    operands_fill(OPERANDS_EXACT, &f->problem, f->x, COUNT, 1);
    f->x[77] = NAN;
    assert_true(isinf(operands_largest(TYPE_FLOAT32, f->x, COUNT)));
    f->x[77] = -INFINITY;
    assert_true(isinf(operands_largest(TYPE_FLOAT32, f->x, COUNT)));
    memset(f->half, 0xff, sizeof(f->half));
    assert_true(isinf(operands_largest(TYPE_FLOAT16, f->half, COUNT)));
    assert_true(isinf(operands_largest(TYPE_BFLOAT16, f->half, COUNT)));
}

TEST_F(conv_operands, exact_results_agree_to_the_last_bit_or_not_at_all)
{
    const struct agreement a = agreement_of(&f->problem, false, 0);
    operands_fill(OPERANDS_EXACT, &f->problem, f->x, COUNT, 1);
    memcpy(f->w, f->x, sizeof(f->x));
    assert_int_equal(operands_compare(&a, f->x, f->w, COUNT).count, 0);
    f->x[9] = nextafterf(f->x[9], 2);
    f->x[700] = 3;
    const struct disagreement d = operands_compare(&a, f->x, f->w, COUNT);
    assert_int_equal(d.count, 2);
    assert_int_equal(d.first, 9);
    assert_true(d.want == (double)f->w[9] && d.got == (double)f->x[9]);
}

TEST_F(conv_operands, negative_zero_equals_zero_in_a_comparison)
{
    const struct agreement a = agreement_of(&f->problem, false, 0);
    static const float minus[] = { -0.0F }, plus[] = { 0.0F };
    assert_int_equal(operands_compare(&a, minus, plus, 1).count, 0);
}

TEST_F(conv_operands, poison_agrees_with_nothing)
{
    static const float nan_[] = { NAN }, one[] = { 1 };
    const struct agreement a = agreement_of(&f->problem, true, 1);
    assert_int_equal(operands_compare(&a, nan_, one, 1).count, 1);
}

TEST_F(conv_operands, winograd_may_be_off_by_its_bound_and_no_more)
{
    const struct agreement a = agreement_of(&f->problem, true, 0);
    static const float want[] = { 10 };
    assert_true(a.bound > 1e-4 && a.bound < 0.05);
    const float near[] = { 10 + (float)a.bound * 0.9F }, far[] = { 10 + (float)a.bound * 1.2F };
    assert_int_equal(operands_compare(&a, near, want, 1).count, 0);
    assert_int_equal(operands_compare(&a, far, want, 1).count, 1);
}

TEST_F(conv_operands, the_callers_data_may_round_but_no_product_may_be_missing)
{
    const struct agreement a = agreement_of(&f->problem, false, 1);
    static const float want[] = { 8 }, rounded[] = { 8.00001F }, missing[] = { 7.75F };
    assert_int_equal(operands_compare(&a, rounded, want, 1).count, 0);
    assert_int_equal(operands_compare(&a, missing, want, 1).count, 1);
}

TEST_F(conv_operands, storage_rounds_once_for_each_result)
{
    static const uint16_t want[] = { 0x4900 }, next[] = { 0x4901 }, after[] = { 0x4904 }; /* 10 */
    f->problem.type = TYPE_FLOAT16;
    const struct agreement a = agreement_of(&f->problem, true, 0);
    assert_int_equal(operands_compare(&a, next, want, 1).count, 0);
    assert_int_equal(operands_compare(&a, after, want, 1).count, 1);
}
