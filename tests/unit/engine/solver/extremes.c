/* SPDX-License-Identifier: MIT */
/* Problems at the limits of problem_check. Each solver that applies must choose a valid config,
 * with which its plan can be launched. */
#include "engine/solver/candidates.h"
#include "engine/solver/conv_generic.h"
#include "engine/solver/geometry.h"

#include "tests/support/test.h"
#include "tests/unit/engine/solver/spaces.h"

static const struct {
    const char *text;
    bool has_tensor_maps;
} targets[] = {
    { "gfx906", false }, { "gfx90a", false },      { "gfx1100", false }, { "gfx1201", false },
    { "sm_75", false },  { "sm_80", false },       { "sm_90a", false },  { "sm_90a", true },
    { "sm_120", false }, { "opencl:test", false },
};
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

/* workspace in bytes that a training job can spare for one layer, in addition to copies of the
 * layer's tensors */
#define WORKSPACE_MAX (2ull << 30)
#define GROUP_MAX 1024u
#define CANDIDATES 24u

/* Returns |p|, in which each size that is not set is 1. Without spatial_dims, |p| is 2-D. */
static struct problem problem_of(struct problem p)
{
    uint32_t *const sizes[] = { &p.spatial_dims, &p.n,        &p.c,          &p.k,
                                &p.groups,       &p.in.d,     &p.in.h,       &p.in.w,
                                &p.filter.d,     &p.filter.h, &p.filter.w,   &p.stride.d,
                                &p.stride.h,     &p.stride.w, &p.dilation.d, &p.dilation.h,
                                &p.dilation.w };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (*sizes[i] == 0)
            *sizes[i] = i == 0 ? 2 : 1;
    return p;
}

static uint64_t tensors_of(const struct problem *p)
{
    return (problem_x_elements(p) + problem_w_elements(p) + problem_y_elements(p)) * 4;
}

static void complain(const struct problem *p, const struct target *t, const char *solver,
                     const char *what)
{
    char line[384];
    problem_to_driver(p, line, sizeof(line));
    fail_msg("%s on %s, %s, layouts %u %u %u: %s", solver, t->text, line, (unsigned)p->x_layout,
             (unsigned)p->w_layout, (unsigned)p->y_layout, what);
}

static const char *what_is_wrong_with(const struct solver *solver, const struct problem *p,
                                      const struct target *t, const struct perf_config *config)
{
    static struct solution solution;
    struct kiln_err err = KILN_ERR_INIT;
    if (solver->solve(p, t, config, &solution, &err))
        return "does not solve it";
    if (solution.kernel_count == 0 || solution.kernel_count > LIMIT_PLAN_KERNELS)
        return "the number of its kernels";
    for (uint32_t i = 0; i < solution.kernel_count; i++) {
        const struct solution_kernel *k = &solution.kernels[i];
        if (k->grid[0] == 0 || k->grid[0] > INT32_MAX || k->grid[1] != 1 || k->grid[2] != 1)
            return "a grid";
        if (k->group[0] == 0 || k->group[0] > GROUP_MAX)
            return "a work group";
        if (t->family == TARGET_AMDGPU && (uint64_t)k->grid[0] * k->group[0] > UINT32_MAX)
            return "more work items than HIP launches";
    }
    /* Packing may pad each group to eight channels. */
    return solution.workspace_size > WORKSPACE_MAX + 8 * tensors_of(p) ? "its workspace" : NULL;
}

static const char *what_is_wrong(const struct solver *solver, const struct problem *p,
                                 const struct target *t)
{
    const struct perf_space space = solver_space(solver, p, t);
    const struct candidate_order order = candidate_order_of(solver->name, &space);
    struct perf_config config = { .count = 0 };
    if (solver->space && !choice_is_valid(solver, p, t, &config))
        return "its own config is not valid";
    const char *wrong = what_is_wrong_with(solver, p, t, &config);
    for (uint32_t i = 0; !wrong && i < CANDIDATES && i < order.count; i++) {
        perf_space_at(&space, candidate_point(&order, i), &config);
        if (solver->config_is_valid(p, t, &config))
            wrong = what_is_wrong_with(solver, p, t, &config);
    }
    return wrong;
}

/* Returns 1 if the solver applies. */
static unsigned expect_sane_solver(const struct solver *solver, const struct problem *p,
                                   const struct target *t)
{
    if (!solver->applies(p, t))
        return 0;
    const char *wrong = what_is_wrong(solver, p, t);
    if (wrong)
        complain(p, t, solver->name, wrong);
    return 1;
}

static unsigned expect_sane(const struct problem *p)
{
    unsigned applied = 0;
    for (size_t i = 0; i < TARGETS; i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct target t;
        must(target_parse(bytes_of_text(targets[i].text), &t, &err), err);
        t.has_tensor_maps = targets[i].has_tensor_maps;
        for (size_t s = 0; solvers[s]; s++)
            applied += expect_sane_solver(solvers[s], p, &t);
        (void)expect_sane_solver(&solver_conv_generic, p, &t);
    }
    return applied;
}

static void expect_sane_in_every_way(struct problem p)
{
    for (unsigned way = 0; way < 3 * 3 * 2; way++) {
        struct kiln_err err = KILN_ERR_INIT;
        p.direction = way % 3;
        p.type = way / 3 % 3;
        p.allow_tf32 = p.type == TYPE_FLOAT32 && p.direction != DIRECTION_FORWARD;
        p.x_layout = p.w_layout = p.y_layout = way / 9;
        must(problem_check(&p, &err), err);
        assert_true(expect_sane(&p) >= TARGETS);
    }
}

TEST(plain, images_one_pixel_wide_or_high_are_solved)
{
    static const struct problem problems[] = {
        { .n = 64, .c = 64, .k = 64, .in = { 1, 4096, 1 }, .filter = { 1, 3, 1 }, .pad.h = 1 },
        { .n = 1, .c = 3, .k = 64, .in = { 1, 1, 1u << 24 }, .filter = { 1, 1, 7 }, .pad.w = 3 },
        { .n = 8, .c = 4, .k = 8, .in = { 1, 1, 512 }, .filter = { 1, 3, 3 }, .pad = { 0, 1, 1 } },
        { .n = 8, .c = 8, .k = 8, .groups = 8, .in = { 1, 999, 1 }, .filter = { 1, 9, 1 } },
        { .n = 1u << 24, .c = 16, .k = 16 },
    };
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++)
        expect_sane_in_every_way(problem_of(problems[i]));
}

/* The weights take 400 MB to 8 GB, so a copy may not fit the workspace. */
TEST(plain, huge_weights_are_solved)
{
    static const struct problem problems[] = {
        { .c = 4096, .k = 4096, .in = { 1, 9, 9 }, .filter = { 1, 3, 3 }, .pad = { 0, 1, 1 } },
        { .c = 4096, .k = 4096, .in = { 1, 9, 9 }, .filter = { 1, 5, 5 }, .pad = { 0, 2, 2 } },
        { .c = 1u << 15, .k = 1u << 15, .in = { 1, 4, 4 } },
        { .c = 1u << 24, .k = 120, .in = { 1, 1, 1 } },
        { .c = 7, .k = 1u << 24, .in = { 1, 3, 3 }, .filter = { 1, 3, 3 } },
        { .c = 1u << 12,
          .k = 1u << 12,
          .groups = 1u << 12,
          .n = 64,
          .in = { 1, 300, 3 },
          .filter = { 1, 300, 3 },
          .pad = { 0, 3, 0 } },
        { .spatial_dims = 3,
          .c = 2048,
          .k = 2048,
          .in = { 5, 5, 5 },
          .filter = { 5, 5, 5 },
          .pad = { 2, 2, 2 } },
    };
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++)
        expect_sane_in_every_way(problem_of(problems[i]));
}

TEST(plain, strides_and_dilations_without_measure_are_solved)
{
    static const struct problem problems[] = {
        { .c = 16, .k = 16, .stride = { 1, 65536, 65536 } },
        { .c = 4096, .k = 4096, .groups = 256, .stride = { 1, 4096, 4096 } },
        { .c = 8,
          .k = 8,
          .in = { 1, 99, 99 },
          .filter = { 1, 2, 2 },
          .pad = { 0, 65536, 65536 },
          .dilation = { 1, 65536, 65536 },
          .stride = { 1, 65535, 65535 } },
        { .spatial_dims = 3, .c = 8, .k = 8, .in = { 3, 3, 3 }, .stride = { 65536, 65536, 65536 } },
        { .c = 64,
          .k = 64,
          .in = { 1, 224, 224 },
          .filter = { 1, 14, 14 },
          .stride = { 1, 14, 14 } },
    };
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++)
        expect_sane_in_every_way(problem_of(problems[i]));
}

TEST(plain, as_many_groups_as_channels_are_solved)
{
    static const struct problem problems[] = {
        { .c = 1u << 24,
          .k = 1u << 24,
          .groups = 1u << 24,
          .in = { 1, 2, 2 },
          .filter = { 1, 2, 2 } },
        { .c = 1u << 20,
          .k = 1u << 21,
          .groups = 1u << 20,
          .in = { 1, 9, 9 },
          .filter = { 1, 3, 3 },
          .pad = { 0, 1, 1 } },
        { .c = 1u << 22,
          .k = 1u << 22,
          .groups = 1u << 21,
          .in = { 1, 7, 7 },
          .filter = { 1, 3, 3 },
          .pad = { 0, 1, 1 } },
        { .spatial_dims = 3,
          .n = 4,
          .c = 1024,
          .k = 1024,
          .groups = 1024,
          .in = { 64, 16, 16 },
          .filter = { 31, 15, 15 },
          .pad = { 15, 7, 7 } },
    };
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++)
        expect_sane_in_every_way(problem_of(problems[i]));
}

TEST(plain, a_launch_ends_where_the_runtimes_counting_does)
{
    static const char *const others[] = { "sm_90", "opencl:test" };
    struct kiln_err err = KILN_ERR_INIT;
    struct target t;
    must(target_parse(bytes_of_text("gfx90a"), &t, &err), err);
    assert_true(geometry_is_launchable(&t, (1u << 26) - 1, 64));
    assert_false(geometry_is_launchable(&t, 1u << 26, 64)); /* 2^32 items */
    assert_true(geometry_is_launchable(&t, INT32_MAX, 2));
    assert_false(geometry_is_launchable(&t, 1u << 31, 1));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        must(target_parse(bytes_of_text(others[i]), &t, &err), err);
        assert_true(geometry_is_launchable(&t, INT32_MAX, 1024));
        assert_false(geometry_is_launchable(&t, 1u << 31, 1));
    }
}

/* Most items of a tile or of a work group are idle, so a launch has far more items than the tensors
 * have elements. */
TEST(plain, launches_of_mostly_idle_items_are_bounded)
{
    static const struct problem problems[] = {
        { .c = 1u << 23,
          .k = 1u << 23,
          .groups = 1u << 23,
          .in = { 1, 15, 17 },
          .stride = { 1, 8, 8 } },
        { .c = 1u << 24, .k = 1u << 24, .groups = 1u << 23, .stride = { 1, 4, 4 } },
        { .c = 1u << 24, .k = 1u << 24, .groups = 1u << 24 },
        { .n = 1u << 7, .c = 1, .k = 1, .in = { 1, 4095, 4095 } },
        { .n = 1u << 7,
          .c = 1,
          .k = 1,
          .in = { 1, 4093, 4093 },
          .filter = { 1, 3, 3 },
          .pad = { 0, 1, 1 } },
        { .c = 1u << 24,
          .k = 1u << 24,
          .groups = 1u << 24,
          .in = { 1, 11, 11 },
          .filter = { 1, 11, 11 } },
        { .c = 1, .k = 1, .in = { 1, 30000, 30000 }, .filter = { 1, 29900, 29900 } },
        { .spatial_dims = 3,
          .c = 1u << 20,
          .k = 1u << 20,
          .groups = 1u << 20,
          .in = { 8, 8, 8 },
          .filter = { 3, 3, 3 },
          .pad = { 1, 1, 1 },
          .stride = { 4, 4, 4 } },
    };
    for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++)
        expect_sane_in_every_way(problem_of(problems[i]));
}

static uint32_t below(uint64_t *state, uint32_t count)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % count);
}

/* Returns a random number from 1 to 2^|bits| - 1. Each length in bits is equally likely. */
static uint32_t size_of(uint64_t *state, uint32_t bits)
{
    uint32_t whole = below(state, bits);
    return (1u << whole) + below(state, 1u << whole);
}

static struct extent extent_of(uint64_t *state, uint32_t bits, uint32_t depth_bits)
{
    struct extent e = { size_of(state, depth_bits), size_of(state, bits), size_of(state, bits) };
    return e;
}

static struct problem draw(uint64_t *state)
{
    bool has_depth = below(state, 3) == 0;
    uint32_t depth = has_depth ? 8 : 1, groups = below(state, 2) ? 1 : size_of(state, 20);
    struct problem p = {
        .direction = below(state, 3),
        .spatial_dims = has_depth ? 3 : 2,
        .type = below(state, 3),
        .x_layout = below(state, 2),
        .w_layout = below(state, 2),
        .y_layout = below(state, 2),
        .n = size_of(state, 20),
        .c = groups * size_of(state, 12),
        .k = groups * size_of(state, 12),
        .groups = groups,
        .in = extent_of(state, 16, depth),
        .filter = extent_of(state, below(state, 4) ? 3 : 12, has_depth ? 4 : 1),
        .pad = extent_of(state, below(state, 4) ? 4 : 16, has_depth ? 4 : 1),
        .stride = extent_of(state, below(state, 4) ? 2 : 16, has_depth ? 4 : 1),
        .dilation = extent_of(state, below(state, 4) ? 1 : 16, has_depth ? 4 : 1),
    };
    if (below(state, 3) == 0)
        p.pad = (struct extent){ 0, 0, 0 };
    if (!has_depth)
        p.pad.d = 0;
    p.allow_tf32 = p.type == TYPE_FLOAT32 && below(state, 2);
    return p;
}

#define RANDOM_PROBLEMS 1500

TEST(plain, problems_of_any_size_are_solved)
{
    uint64_t random = 1;
    for (unsigned found = 0; found < RANDOM_PROBLEMS;) {
        struct kiln_err ignored = KILN_ERR_INIT;
        struct problem p = draw(&random);
        if (problem_check(&p, &ignored))
            continue;
        assert_true(expect_sane(&p) >= TARGETS);
        found++;
    }
}
