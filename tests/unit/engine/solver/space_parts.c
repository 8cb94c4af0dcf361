/* SPDX-License-Identifier: MIT */
/* Tests that the parts of a space contain every valid point. Also tests the first points of a
 * search on Hopper, where the value of the axis "wgmma" restricts the other axes. */
#include "common/miopen/driver_line.h"
#include "engine/solver/candidates.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <string.h>

#define LINES KILN_SOURCE "/scripts/networks/resnet50.txt"
#define SOLVER "ConvImplicitGemm"
#define PROBLEMS 69
#define FEEDS 4u   /* number of values of the axis "wgmma": narrow, async, bulk, persistent */
#define DRAWS 200u /* how many valid candidates a search tries in a few seconds */
#define SHARE_MIN (DRAWS / 15)

struct fixture {
    struct problem problems[PROBLEMS];
    unsigned count;
    struct target target;
    const struct solver *solver;
};

static void take_line(struct fixture *f, struct bytes text)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct driver_line line;
    if (driver_line_parse(text, &line, &ignored))
        return;
    line.problem.n = 64;
    line.problem.type = TYPE_FLOAT16;
    line.problem.x_layout = line.problem.w_layout = line.problem.y_layout = LAYOUT_CHANNELS_LAST;
    assert_true(f->count < PROBLEMS);
    assert_true(driver_line_problem(&line, 0, &f->problems[f->count++]));
}

SET_UP(setup)
{
    struct kiln_err err = KILN_ERR_INIT;
    char *rest = NULL;
    *f = (struct fixture){ .solver = solver_find(bytes_of_text(SOLVER)) };
    must(target_parse(bytes_of_text("sm_90a"), &f->target, &err), err);
    f->target.has_tensor_maps = true;
    for (char *line = strtok_r(test_read_text(LINES), "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        take_line(f, bytes_of_text(line));
    assert_int_equal(f->count, PROBLEMS);
}

TEST_PROGRAM(setup, NULL)

static bool is_in(const struct perf_space *space, uint32_t part, const struct perf_config *config)
{
    for (uint32_t i = 0; i < space->count; i++)
        if (!perf_axis_has(&space->parts[part * space->count + i], config->values[i]))
            return false;
    return true;
}

static void expect_every_valid_point_in_one_part(const struct fixture *f, const struct problem *p)
{
    const struct perf_space space = solver_space(f->solver, p, &f->target);
    const struct perf_space whole = { .axes = space.axes, .count = space.count };
    unsigned valid = 0;
    assert_true(space.part_count > 1 && space.part_count <= PERF_PARTS_MAX);
    for (uint32_t i = 0; i < perf_space_size(&whole); i++) {
        struct perf_config config;
        unsigned parts = 0;
        perf_space_at(&whole, i, &config);
        for (uint32_t part = 0; part < space.part_count; part++)
            parts += is_in(&space, part, &config);
        bool is_valid = f->solver->config_is_valid(p, &f->target, &config);
        if (parts > 1 || (is_valid && parts == 0))
            fail_msg("point %u is in %u parts", (unsigned)i, parts);
        valid += is_valid;
    }
    assert_true(valid > 0);
}

TEST_F(plain, no_valid_point_is_left_out_or_there_twice)
{
    for (unsigned i = 4; i < f->count; i += 23)
        expect_every_valid_point_in_one_part(f, &f->problems[i]);
    struct problem grouped = f->problems[6];
    grouped.groups = 2;
    expect_every_valid_point_in_one_part(f, &grouped);
}

TEST_F(plain, no_valid_point_in_tf32_is_left_out_or_there_twice)
{
    for (unsigned i = 4; i < f->count; i += 23) {
        struct problem problem = f->problems[i];
        problem.type = TYPE_FLOAT32;
        problem.allow_tf32 = 1;
        expect_every_valid_point_in_one_part(f, &problem);
    }
}

struct draws {
    unsigned all; /* sum of |of|, at most DRAWS */
    /* how many of the first DRAWS valid candidates have each value of "wgmma" */
    unsigned of[FEEDS];
    unsigned there[FEEDS]; /* how many valid points have each value of "wgmma" */
};

static struct draws draw(const struct fixture *f, const struct problem *p)
{
    const struct perf_space space = solver_space(f->solver, p, &f->target);
    const struct candidate_order order = candidate_order_of(SOLVER, &space);
    struct draws d = { 0 };
    for (uint32_t i = 0; i < order.count; i++) {
        struct perf_config config;
        perf_space_at(&space, candidate_point(&order, i), &config);
        if (!f->solver->config_is_valid(p, &f->target, &config))
            continue;
        uint16_t feed = config.values[space.count - 1];
        assert_true(feed < FEEDS);
        d.there[feed]++;
        d.of[feed] += d.all < DRAWS;
        d.all += d.all < DRAWS;
    }
    return d;
}

TEST_F(plain, each_way_to_feed_wgmma_has_its_share_of_the_first_draws)
{
    unsigned in_bulk = 0;
    for (unsigned i = 0; i < f->count; i++) {
        const struct draws d = draw(f, &f->problems[i]);
        for (unsigned feed = 0; feed < FEEDS; feed++) {
            unsigned least = d.there[feed] < SHARE_MIN ? d.there[feed] : SHARE_MIN;
            if (d.of[feed] < least)
                fail_msg("problem %u: %u of %u draws have wgmma %u, of which there are %u", i,
                         d.of[feed], d.all, feed, d.there[feed]);
        }
        in_bulk += d.there[2] > 0;
    }
    /* bulk copies apply to all problems, except for the three directions of the first layer */
    assert_int_equal(in_bulk, PROBLEMS - 3);
}

/* When it begins a search, libkiln asks kilnd for all candidates in one list. */
TEST_F(plain, the_whole_space_is_no_larger_than_one_list)
{
    const struct perf_space space = solver_space(f->solver, &f->problems[0], &f->target);
    assert_in_range(perf_space_size(&space), 1, 1u << 17);
}
