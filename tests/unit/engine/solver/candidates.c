/* SPDX-License-Identifier: MIT */
#include "engine/solver/candidates.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

/* A space with one axis, so it has one point for each value. */
struct made_up {
    struct perf_axis axis;
    struct perf_space space;
};

static struct candidate_order order_of(struct made_up *m, uint32_t count)
{
    static uint16_t values[65535];
    m->axis = (struct perf_axis){ .name = "x", .values = values, .count = count };
    m->space = (struct perf_space){ .axes = &m->axis, .count = 1 };
    return candidate_order_of("Some", &m->space);
}

TEST(plain, every_point_is_one_candidate)
{
    static const uint32_t counts[] = { 1, 2, 3, 4, 5, 7, 8, 9, 1000, 4095, 4096, 4097, 65535 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct made_up m;
        const struct candidate_order order = order_of(&m, counts[i]);
        KILN_AUTO(mem) bool *seen = calloc(counts[i], sizeof(*seen));
        assert_int_equal(order.count, counts[i]);
        for (uint32_t k = 0; k < counts[i]; k++) {
            uint32_t point = candidate_point(&order, k);
            assert_true(point < counts[i]);
            assert_false(seen[point]);
            seen[point] = true;
        }
    }
}

TEST(plain, a_space_without_axes_has_no_candidates)
{
    const struct perf_space none = { .count = 0 };
    assert_int_equal(candidate_order_of("Some", &none).count, 0);
}

/* The order must never change, because processes of different versions may share a search. */
TEST(plain, the_order_stays_as_it_is)
{
    static const uint32_t pinned[] = { 210, 646, 715, 230, 102, 638, 125, 894 };
    struct made_up m;
    const struct candidate_order order = order_of(&m, 1000);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(candidate_point(&order, i), pinned[i]);
}

TEST(plain, solvers_and_sizes_have_orders_of_their_own)
{
    struct made_up m;
    const struct candidate_order a = order_of(&m, 1000), b = order_of(&m, 1001);
    const struct candidate_order c = candidate_order_of("Other", &m.space);
    unsigned same_as_b = 0, c_same_as_b = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        same_as_b += candidate_point(&a, i) == candidate_point(&b, i);
        c_same_as_b += candidate_point(&c, i) == candidate_point(&b, i);
    }
    assert_true(same_as_b < 20 && c_same_as_b < 20); /* by chance, about one would be equal */
}

TEST(plain, every_range_is_a_fair_sample)
{
    struct made_up m;
    const struct candidate_order order = order_of(&m, 65535);
    for (uint32_t share = 0; share < 64; share++) {
        unsigned in_first_tenth = 0, odd = 0;
        for (uint32_t i = share * 1023; i < (share + 1) * 1023; i++) {
            uint32_t point = candidate_point(&order, i);
            in_first_tenth += point < 6553;
            odd += point % 2;
        }
        assert_in_range(in_first_tenth, 52,
                        /* 102 are expected, and the bounds are five standard deviations away */
                        153);
        assert_in_range(odd, 431, 592); /* 511 expected */
    }
}

#define PARTS 3
static const uint32_t sizes[PARTS] = { 100, 3, 10 };

/* Makes a space of PARTS parts. Part i has sizes[i] values, from i * 100 on. */
static struct perf_space parted_space(void)
{
    static uint16_t values[PARTS][100], all[PARTS * 100];
    static struct perf_axis parts[PARTS], whole;
    for (uint16_t i = 0; i < PARTS; i++) {
        for (uint16_t k = 0; k < 100; k++)
            values[i][k] = all[i * 100 + k] = (uint16_t)(i * 100 + k);
        parts[i] = (struct perf_axis){ "x", values[i], sizes[i] };
    }
    whole = (struct perf_axis){ "x", all, PARTS * 100 };
    return (struct perf_space){ .axes = &whole, .count = 1, .parts = parts, .part_count = PARTS };
}

static unsigned part_of_candidate(const struct perf_space *space,
                                  const struct candidate_order *order, uint32_t index)
{
    struct perf_config config;
    perf_space_at(space, candidate_point(order, index), &config);
    assert_int_equal(config.count, 1);
    return config.values[0] / 100;
}

TEST(plain, parts_alternate_until_they_are_used_up)
{
    const struct perf_space space = parted_space();
    const struct candidate_order order = candidate_order_of("Some", &space);
    unsigned taken[PARTS] = { 0 };
    assert_int_equal(perf_space_size(&space), 113);
    assert_int_equal(order.count, 113);
    for (uint32_t i = 0; i < order.count; i++) {
        taken[part_of_candidate(&space, &order, i)]++;
        /* The first nine candidates include all three of the second part. */
        if (i == 8)
            assert_true(taken[0] == 3 && taken[1] == 3 && taken[2] == 3);
        if (i == 22)
            assert_true(taken[0] == 10 && taken[1] == 3 && taken[2] == 10);
    }
    for (uint32_t i = 0; i < PARTS; i++)
        assert_int_equal(taken[i], sizes[i]);
}

TEST(plain, every_point_of_every_part_is_one_candidate)
{
    const struct perf_space space = parted_space();
    const struct candidate_order order = candidate_order_of("Some", &space);
    bool seen[113] = { false };
    for (uint32_t i = 0; i < order.count; i++) {
        uint32_t point = candidate_point(&order, i);
        assert_true(point < 113);
        assert_false(seen[point]);
        seen[point] = true;
    }
}

TEST(plain, parts_of_one_size_have_orders_of_their_own)
{
    static uint16_t values[1000];
    const struct perf_axis parts[] = { { "x", values, 1000 }, { "x", values, 1000 } };
    const struct perf_space space = { .axes = parts, .count = 1, .parts = parts, .part_count = 2 };
    const struct candidate_order order = candidate_order_of("Some", &space);
    unsigned same = 0;
    for (uint32_t i = 0; i < order.count; i += 2)
        same += candidate_point(&order, i) + 1000 == candidate_point(&order, i + 1);
    assert_true(same < 20);
}

static const char *const targets[] = { "gfx906",  "gfx90a:sramecc+:xnack-",
                                       "gfx942",  "gfx1030",
                                       "gfx1100", "sm_80",
                                       "sm_90a",  "opencl:test" };

static struct problem problem_of(uint32_t direction, uint32_t type, uint32_t groups, uint32_t size)
{
    return (struct problem){ .direction = direction,
                             .spatial_dims = 2,
                             .type = type,
                             .n = 64,
                             .c = 64,
                             .k = 64,
                             .groups = groups,
                             .in = { 1, 56, 56 },
                             .filter = { 1, size, size },
                             .pad = { 0, size / 2, size / 2 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
}

static void check_solver(const struct solver *solver, const struct problem *p,
                         const struct target *t)
{
    if (!solver->applies(p, t))
        return;
    const struct perf_space space = solver_space(solver, p, t);
    uint64_t points = space.count > 0;
    for (uint32_t i = 0; i < space.count; i++)
        points *= space.axes[i].count;
    if (points > CANDIDATES_MAX)
        fail_msg("%s has %llu points on %s: a lease shares out %u", solver->name,
                 (unsigned long long)points, t->text, CANDIDATES_MAX);
    if (space.count > 0)
        assert_true(candidates_count_valid(solver, p, t).valid > 0);
}

TEST(plain, no_space_is_larger_than_a_lease_can_share)
{
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct target t;
        must(target_parse(bytes_of_text(targets[i]), &t, &err), err);
        for (uint32_t way = 0; way < 3 * 3 * 2 * 2; way++) {
            const struct problem p =
                problem_of(way % 3, way / 3 % 3, way / 9 % 2 ? 64 : 1, way / 18 ? 3 : 1);
            for (size_t k = 0; solvers[k]; k++)
                check_solver(solvers[k], &p, &t);
        }
    }
}

static uint16_t many[2048];
static const struct perf_axis axes[] = { { "x", many, 2048 }, { "y", many, 300 } };
static uint32_t axis_count;
static struct perf_space made_up_space(const struct problem *p, const struct target *t)
{
    (void)p, (void)t;
    return (struct perf_space){ .axes = axes, .count = axis_count };
}
static bool is_fourth(const struct problem *p, const struct target *t, const struct perf_config *c)
{
    (void)p, (void)t;
    return c->values[0] % 4 == 0;
}
static bool is_the_last(const struct problem *p, const struct target *t,
                        const struct perf_config *c)
{
    (void)p, (void)t;
    return c->values[0] == 2047 && c->count == 2 && c->values[1] == 299;
}

TEST(plain, valid_points_are_counted_or_estimated)
{
    struct solver solver = { .name = "Made", .space = made_up_space, .config_is_valid = is_fourth };
    for (uint32_t i = 0; i < 2048; i++)
        many[i] = (uint16_t)i;
    axis_count = 1;
    struct candidate_count count = candidates_count_valid(&solver, NULL, NULL);
    assert_int_equal(count.valid, 512);
    assert_false(count.is_estimate);
    axis_count = 2;
    count = candidates_count_valid(&solver, NULL, NULL);
    assert_true(count.is_estimate);
    assert_in_range(count.valid, 300 * 512 - 29400,
                    300 * 512 + 29400);   /* five standard deviations */
    solver.config_is_valid = is_the_last; /* the only valid point is not in the sample */
    count = candidates_count_valid(&solver, NULL, NULL);
    assert_true(count.is_estimate);
    assert_int_equal(count.valid, 1);
}

static struct perf_space parted(const struct problem *p, const struct target *t)
{
    static const struct perf_axis parts[] = { { "x", many, 2048 }, { "x", many, 40 } };
    (void)p, (void)t;
    return (struct perf_space){ .axes = axes, .count = 1, .parts = parts, .part_count = 2 };
}
static bool is_of_forty(const struct problem *p, const struct target *t,
                        const struct perf_config *c)
{
    (void)p, (void)t;
    return c->values[0] < 40;
}

/* One part has 40 points, which are all checked. Of the 2048 points of the other part, 2008 are
 * checked. 40 of these are valid. */
TEST(plain, each_part_is_estimated_by_its_own_sample)
{
    const struct solver solver = { .name = "Made",
                                   .space = parted,
                                   .config_is_valid = is_of_forty };
    for (uint32_t i = 0; i < 2048; i++)
        many[i] = (uint16_t)i;
    const struct candidate_count count = candidates_count_valid(&solver, NULL, NULL);
    assert_true(count.is_estimate);
    assert_in_range(count.valid, 75, 81);
}
