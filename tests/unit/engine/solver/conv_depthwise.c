/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_depthwise.h"

#include "tests/unit/engine/solver/solver_fixture.h"
#include "tests/unit/engine/solver/spaces.h"

#include <string.h>

static const char *const targets[] = { "gfx906",  "gfx908",  "gfx90a", "gfx942", "gfx1030",
                                       "gfx1100", "gfx1201", "sm_90",  NULL };

/* Indices of the axes. In backward weights, SPLITS replaces ROWS. */
enum { COLUMNS, ROWS, VECTOR, LANES, GROUP, AXES, SPLITS = ROWS };

/* MobileNet's 3x3 layer at 28x28, batch 32. */
SOLVER_FIXTURE("ConvDepthwise", "sm_90", .n = 32, .c = 256, .k = 256, .groups = 256,
               .in = { 1, 28, 28 });

static bool applies(const struct fixture *f)
{
    return solver_conv_depthwise.applies(&f->problem, &f->target);
}

static uint32_t count_valid(const struct fixture *f)
{
    return valid_points(&solver_conv_depthwise, &f->problem, &f->target);
}

static bool default_is_valid(const struct fixture *f, struct perf_config *ret_config)
{
    return choice_is_valid(&solver_conv_depthwise, &f->problem, &f->target, ret_config);
}

TEST_F(solver, applies_where_each_group_has_one_input_channel)
{
    assert_true(applies(f));
    f->problem.k = 512; /* two output channels for each input channel */
    assert_true(applies(f));
    f->problem.groups = 128;
    assert_false(applies(f));
}

TEST_F(solver, applies_to_volumes_strides_and_dilation)
{
    f->problem.spatial_dims = 3;
    f->problem.in.d = f->problem.filter.d = 3;
    f->problem.stride = (struct extent){ 1, 2, 3 };
    f->problem.dilation = (struct extent){ 1, 3, 2 };
    assert_true(applies(f));
}

TEST_F(solver, does_not_apply_to_integers_or_layouts_that_differ)
{
    f->problem.type = TYPE_INT8;
    assert_false(applies(f));
    f->problem.type = TYPE_FLOAT16;
    /* the filter has one channel, so both layouts of it are the same */
    f->problem.w_layout = LAYOUT_CHANNELS_LAST;
    assert_true(applies(f));
    f->problem.y_layout = LAYOUT_CHANNELS_LAST;
    assert_false(applies(f));
}

static bool is_favoured(const struct fixture *f)
{
    return solver_conv_depthwise.is_favoured(&f->problem, &f->target);
}

/* Forward computes 64 channels of y from one channel of x, in fp16. On an H200, a 3x3 filter
 * takes 41 us with this solver, and 250 us with ConvImplicitGemm. */
TEST_F(solver, one_channel_in_one_group_is_favoured_only_forward_with_few_taps)
{
    assert_true(is_favoured(f));
    f->problem.c = f->problem.groups = 1;
    f->problem.direction = DIRECTION_FORWARD;
    assert_true(applies(f));
    assert_true(is_favoured(f));
    f->problem.filter = (struct extent){ 1, 5, 5 };
    assert_false(is_favoured(f));
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_false(is_favoured(f));
}

/* ConvNeXt's last stage: on an H200, it takes 83 us if an item sums four channels, and 36 us if
 * it sums one. */
TEST_F(solver, weights_of_large_filters_in_fp32_sum_one_channel)
{
    struct perf_config config = { 0 };
    put_channels_last(f);
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.n = 64;
    f->problem.c = f->problem.k = f->problem.groups = 1024;
    f->problem.in = (struct extent){ 1, 7, 7 };
    f->problem.filter = (struct extent){ 1, 7, 7 };
    f->problem.pad = (struct extent){ 0, 3, 3 };
    f->problem.stride = f->problem.dilation = (struct extent){ 1, 1, 1 };
    assert_true(choice_is_valid(&solver_conv_depthwise, &f->problem, &f->target, &config));
    assert_int_equal(config.values[0], 7);
    assert_int_equal(config.values[2], 1);
    f->problem.type = TYPE_FLOAT16;
    assert_true(choice_is_valid(&solver_conv_depthwise, &f->problem, &f->target, &config));
    assert_int_equal(config.values[2], 4);
}

TEST_F(solver, the_space_has_hundreds_of_valid_points)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(count_valid(f), 100, 5000);
    }
    put_channels_last(f);
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(count_valid(f), 200, 5000);
    }
}

TEST_F(solver, the_heuristic_is_valid_for_every_target_type_and_direction)
{
    struct perf_config config;
    for (uint32_t at = 0; at < 18; at++) {
        f->problem.direction = at % 3;
        f->problem.type = at / 3 % 3;
        if (at == 9)
            put_channels_last(f);
        for (const char *const *target = targets; *target; target++) {
            set_target(f, *target);
            assert_true(default_is_valid(f, &config));
        }
    }
}

TEST_F(solver, the_heuristic_is_valid_for_odd_problems)
{
    static const struct {
        uint32_t n, c, multiplier, h, w, filter, pad, stride, dilation;
    } odd[] = {
        { 1, 1, 1, 1, 1, 1, 0, 1, 1 },   { 1, 2, 3, 1, 50, 3, 1, 2, 1 },
        { 3, 7, 1, 40, 1, 5, 2, 3, 1 },  { 1, 130, 2, 9, 9, 31, 15, 1, 1 },
        { 2, 12, 1, 5, 6, 3, 40, 7, 9 }, { 64, 1024, 1, 112, 112, 7, 3, 1, 1 },
    };
    struct perf_config config;
    for (size_t i = 0; i < 6 * sizeof(odd) / sizeof(odd[0]); i++) {
        size_t at = i / 6;
        f->problem.direction = i % 3;
        f->problem.x_layout = f->problem.y_layout = i / 3 % 2;
        f->problem.n = odd[at].n;
        f->problem.c = f->problem.groups = odd[at].c;
        f->problem.k = odd[at].c * odd[at].multiplier;
        f->problem.in = (struct extent){ 1, odd[at].h, odd[at].w };
        f->problem.filter = (struct extent){ 1, odd[at].filter, odd[at].filter };
        f->problem.pad = (struct extent){ 0, odd[at].pad, odd[at].pad };
        f->problem.stride = (struct extent){ 1, odd[at].stride, odd[at].stride };
        f->problem.dilation = (struct extent){ 1, odd[at].dilation, odd[at].dilation };
        must(problem_check(&f->problem, &f->err), f->err);
        assert_true(default_is_valid(f, &config));
    }
}

/* On an H200, each of these configs takes at most a sixth longer than the fastest of those
 * tried. */
TEST_F(solver, the_heuristic_config_is_one_measured_to_be_fast)
{
    static const struct {
        uint32_t direction, c, size, stride;
        const char *config;
    } measured[] = {
        { 0, 64, 112, 2, "1,8,1,1,128" },  { 1, 64, 112, 2, "2,4,1,1,128" },
        { 2, 64, 112, 2, "3,16,1,1,256" }, { 2, 128, 56, 1, "7,32,1,1,64" },
        { 0, 512, 14, 1, "2,4,1,1,128" },  { 1, 1024, 7, 1, "1,7,1,1,128" },
        { 2, 1024, 7, 1, "7,1,1,1,64" },
    };
    struct perf_config config;
    f->problem.n = 64;
    for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
        char text[PERF_CONFIG_TEXT_MAX];
        f->problem.direction = measured[i].direction;
        f->problem.c = f->problem.k = f->problem.groups = measured[i].c;
        f->problem.in.h = f->problem.in.w = measured[i].size;
        f->problem.stride.h = f->problem.stride.w = measured[i].stride;
        assert_true(default_is_valid(f, &config));
        perf_config_write(&config, text);
        assert_string_equal(text, measured[i].config);
    }
}

/* On an H100, a 7x7 layer takes 228 us if an item computes one pixel of four channels, and 44 us
 * if it computes a block of 4 x 8 pixels. */
TEST_F(solver, large_filters_give_up_channels_of_an_item_for_a_block)
{
    static const uint32_t filters[] = { 5, 7 };
    struct perf_config config;
    put_channels_last(f);
    f->problem.n = 64;
    f->problem.type = TYPE_FLOAT16;
    for (uint32_t at = 0; at < 4; at++) {
        uint32_t filter = filters[at % 2];
        f->problem.direction = at / 2;
        f->problem.filter = (struct extent){ 1, filter, filter };
        f->problem.pad = (struct extent){ 0, filter / 2, filter / 2 };
        assert_true(default_is_valid(f, &config));
        assert_in_range(config.values[COLUMNS] * config.values[ROWS], 16, 32);
        assert_int_equal(config.values[VECTOR], filter == 5 ? 2 : 1);
    }
}

TEST_F(solver, a_config_survives_its_text)
{
    char text[PERF_CONFIG_TEXT_MAX];
    must(solve(f, "2,7,1,1,256"), f->err);
    perf_config_write(&f->solution.config, text);
    assert_string_equal(text, "2,7,1,1,256");
    const char *options = f->solution.programs[0].options;
    assert_says(options, "-DKILN_COLUMNS=2 ");
    assert_says(options, "-DKILN_ROWS=7");
    assert_says(options, "-DKILN_GROUP_SIZE=256");
}

TEST_F(solver, a_value_that_is_on_no_axis_is_refused_by_its_name)
{
    assert_int_equal(solve(f, "2,7,1,1,100"), KILN_INVALID);
    assert_says(f->err.text, "group");
    assert_says(f->err.text, "ConvDepthwise");
    assert_int_equal(solve(f, "2,7,4,1,128"), KILN_INVALID);
    assert_says(f->err.text, "vector");
}

TEST_F(solver, a_config_that_does_not_fit_is_refused)
{
    assert_int_equal(solve(f, "8,14,1,1,128"), KILN_INVALID); /* too many registers */
    assert_says(f->err.text, "fit");
    f->problem.in.h = f->problem.in.w = 4;
    /* half of a block of 8 x 1 pixels would be outside the image */
    assert_int_equal(solve(f, "8,1,1,1,128"), KILN_INVALID);
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.stride.h = f->problem.stride.w = 2;
    /* a block has 3 columns, which is no multiple of the stride 2 */
    assert_int_equal(solve(f, "3,2,1,1,128"), KILN_INVALID);
    put_channels_last(f);
    f->problem.c = f->problem.k = f->problem.groups = 12;
    /* the vector has 8 channels, and 12 is no multiple of 8 */
    assert_int_equal(solve(f, "1,1,8,4,128"), KILN_INVALID);
}

TEST_F(solver, the_grid_covers_every_block_of_every_channel)
{
    must(solve(f, "2,7,1,1,256"), f->err);
    assert_int_equal(f->solution.kernel_count, 1);
    assert_string_equal(f->solution.kernels[0].name, "conv_depthwise_forward");
    assert_int_equal(f->solution.kernels[0].group[0], 256);
    /* A work group has 256 items. The blocks are 4 x 14 for each of 32 images and 256 channels. */
    assert_int_equal(f->solution.kernels[0].grid[0], 32 * 4 * 14 / 256 * 256);
    assert_int_equal(f->solution.workspace_size, 0);
}

TEST_F(solver, split_sums_go_through_the_workspace)
{
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    must(solve(f, "7,1,1,1,64"), f->err);
    assert_int_equal(f->solution.kernel_count, 1);
    assert_int_equal(f->solution.workspace_size, 0);
    assert_int_equal(f->solution.kernels[0].arguments[2].kind, ARGUMENT_W);
    must(solve(f, "7,8,1,1,64"), f->err);
    assert_int_equal(f->solution.kernel_count, 2);
    assert_int_equal(f->solution.workspace_size, 8 * 256 * 9 * sizeof(float));
    assert_int_equal(f->solution.kernels[0].arguments[2].kind, ARGUMENT_WORKSPACE);
    assert_string_equal(f->solution.kernels[1].name, "conv_split_reduce_sum");
    assert_int_equal(f->solution.kernels[1].arguments[1].kind, ARGUMENT_W);
}

/* The filter is as large as the volume: with 1024 channels, each copy of w takes 28 MB. */
TEST_F(solver, parts_of_sums_take_no_more_than_a_job_spares)
{
    struct perf_config config;
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.spatial_dims = 3;
    f->problem.c = f->problem.k = f->problem.groups = 1024;
    f->problem.in = (struct extent){ 31, 16, 16 };
    f->problem.filter = (struct extent){ 31, 15, 15 };
    f->problem.pad = (struct extent){ 15, 7, 7 };
    must(solve(f, "1,16,1,1,64"), f->err);
    assert_int_equal(f->solution.workspace_size, 16ull * 1024 * 31 * 15 * 15 * 4);
    assert_int_equal(solve(f, "1,32,1,1,64"), KILN_INVALID);
    f->problem.c = f->problem.k = f->problem.groups = 64;
    /* each part of the sum needs 256 MB of workspace, so there are only two parts */
    f->problem.filter = (struct extent){ 1, 999, 999 };
    f->problem.in = (struct extent){ 30, 16, 16 };
    f->problem.pad = (struct extent){ 0, 499, 499 };
    assert_true(default_is_valid(f, &config));
    assert_int_equal(config.values[SPLITS], 2);
}

TEST_F(solver, another_batch_compiles_nothing)
{
    static struct solution first;
    must(solve(f, "2,7,1,1,128"), f->err);
    first = f->solution;
    f->problem.n = 5;
    must(solve(f, "2,7,1,1,128"), f->err);
    assert_string_equal(first.programs[0].options, f->solution.programs[0].options);
    assert_int_equal(f->solution.kernels[0].arguments[3].value, 5);
}
