/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/tuning/family.h"

static const struct problem base = {
    .direction = DIRECTION_FORWARD,
    .spatial_dims = 2,
    .n = 64,
    .c = 64,
    .k = 128,
    .groups = 1,
    .in = { 1, 56, 56 },
    .filter = { 1, 3, 3 },
    .pad = { 0, 1, 1 },
    .stride = { 1, 1, 1 },
    .dilation = { 1, 1, 1 },
};

static bool are_relatives(const struct problem *a, const struct problem *b, enum family family)
{
    struct family_names of_a, of_b;
    struct kinship x = kinship_of(a, &of_a), y = kinship_of(b, &of_b);
    return bytes_equal(x.families[family], y.families[family]);
}

TEST(plain, another_batch_size_stays_in_both_families)
{
    struct problem other = base;
    other.n = 1;
    assert_true(are_relatives(&base, &other, FAMILY_BATCH));
    assert_true(are_relatives(&base, &other, FAMILY_SPATIAL));
}

TEST(plain, another_spatial_size_stays_in_the_wider_family_alone)
{
    struct problem other = base;
    other.n = 300;
    other.in.h = 28;
    assert_false(are_relatives(&base, &other, FAMILY_BATCH));
    assert_true(are_relatives(&base, &other, FAMILY_SPATIAL));
}

TEST(plain, every_other_field_makes_another_family)
{
    const size_t numbers = sizeof(base) / sizeof(uint32_t);
    const size_t n = offsetof(struct problem, n) / sizeof(uint32_t);
    const size_t in = offsetof(struct problem, in) / sizeof(uint32_t);
    for (size_t i = 0; i < numbers; i++) {
        if (i == n || (i >= in && i < in + 3))
            continue;
        struct problem other = base;
        ((uint32_t *)&other)[i] += 200;
        assert_false(are_relatives(&base, &other, FAMILY_BATCH));
        assert_false(are_relatives(&base, &other, FAMILY_SPATIAL));
    }
}

TEST(plain, the_families_of_a_problem_are_two)
{
    struct family_names names;
    struct kinship kin = kinship_of(&base, &names);
    assert_false(bytes_equal(kin.families[FAMILY_BATCH], kin.families[FAMILY_SPATIAL]));
}

TEST(plain, the_largest_numbers_fit)
{
    struct problem largest;
    for (size_t i = 0; i < sizeof(largest) / sizeof(uint32_t); i++)
        ((uint32_t *)&largest)[i] = UINT32_MAX;
    struct family_names names;
    struct kinship kin = kinship_of(&largest, &names);
    assert_in_range(kin.families[FAMILY_BATCH].size, 1, FAMILY_NAME_MAX);
}

TEST(plain, a_key_gives_family_batch_and_volume)
{
    struct family_names of_key, of_problem;
    struct kinship kin = kinship_of_key(
        TUNING_FIND, bytes_of_text("64-56-56-3x3-128-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F"), &of_key);
    struct kinship wanted = kinship_of(&base, &of_problem);
    assert_int_equal(kin.batch, 64);
    assert_int_equal(kin.volume, 56 * 56);
    for (int f = 0; f < FAMILIES; f++)
        assert_true(bytes_equal(kin.families[f], wanted.families[f]));
}

TEST(plain, find_and_perf_keys_of_one_problem_name_one_family)
{
    struct family_names of_find, of_perf;
    struct kinship find = kinship_of_key(
        TUNING_FIND, bytes_of_text("64-56-56-3x3-128-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F"),
        &of_find);
    struct kinship perf = kinship_of_key(
        TUNING_PERF, bytes_of_text("2x64x56x56x1x3x3x1x128x16x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"),
        &of_perf);
    assert_int_equal(perf.batch, 16);
    assert_true(bytes_equal(find.families[FAMILY_BATCH], perf.families[FAMILY_BATCH]));
}

TEST(plain, a_key_that_is_no_problem_has_no_family)
{
    static const char *const keys[] = { "", "nonsense",
                                        "64-56-56-3x3-128-56-56-64-1x1-1x1-1x1-0-NCHW-FP99-F" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct family_names names;
        struct kinship kin = kinship_of_key(TUNING_FIND, bytes_of_text(keys[i]), &names);
        assert_int_equal(kin.families[FAMILY_BATCH].size, 0);
        assert_int_equal(kin.families[FAMILY_SPATIAL].size, 0);
        assert_int_equal(kin.batch, 0);
    }
}
