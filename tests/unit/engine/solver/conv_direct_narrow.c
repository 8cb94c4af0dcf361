/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_direct_narrow.h"

#include "tests/unit/engine/solver/solver_fixture.h"
#include "tests/unit/engine/solver/spaces.h"

#include <string.h>

static const struct solver *const narrow = &solver_conv_direct_narrow;

/* ResNet-50's first layer, batch 64. */
SOLVER_FIXTURE("ConvDirectNarrow", "sm_90", .direction = DIRECTION_BACKWARD_DATA, .n = 64, .c = 3,
               .k = 64, .in = { 1, 224, 224 }, .filter = { 1, 7, 7 }, .pad = { 0, 3, 3 },
               .stride = { 1, 2, 2 });

TEST_F(solver, the_first_layer_of_an_image_network_is_its_to_solve)
{
    assert_ptr_equal(solver_choose(&f->problem, &f->target), narrow);
    /* in direction forward, the solver does not apply to problems with strides */
    f->problem.direction = DIRECTION_FORWARD;
    assert_false(narrow->applies(&f->problem, &f->target));
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_false(narrow->applies(&f->problem, &f->target));
}

TEST_F(solver, does_not_apply_to_integers_volumes_or_too_many_sums)
{
    f->problem.type = TYPE_INT8;
    assert_false(narrow->applies(&f->problem, &f->target));
    f->problem.type = TYPE_BFLOAT16;
    assert_true(narrow->applies(&f->problem, &f->target));
    f->problem.in.d = 2;
    assert_false(narrow->applies(&f->problem, &f->target));
    f->problem.in.d = 1;
    /* 4 blocks of 2 x 2 pixels and 8 channels make 128 sums, which is the limit. */
    f->problem.c = 8;
    f->problem.filter = (struct extent){ 1, 3, 3 };
    assert_true(narrow->applies(&f->problem, &f->target));
    f->problem.c = 9;
    assert_false(narrow->applies(&f->problem, &f->target));
}

TEST_F(solver, sums_beyond_64_bits_are_too_many)
{
    f->problem.c = 16;
    /* with 4 columns, an item would have 2^64 sums */
    f->problem.stride = (struct extent){ 1, 1u << 29, 1u << 29 };
    assert_false(narrow->applies(&f->problem, &f->target));
}

TEST_F(solver, does_not_apply_where_a_strip_meets_too_much)
{
    f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.dilation = (struct extent){ 1, 1, 10 };
    assert_true(narrow->applies(&f->problem, &f->target));
    f->problem.dilation.w = 11; /* a strip would read 66 more pixels of y than it has blocks */
    f->problem.pad.w = 33;
    assert_false(narrow->applies(&f->problem, &f->target));
}

TEST_F(solver, is_not_favoured_where_a_product_has_rows_enough)
{
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 1, 1 };
    f->problem.c = 7;
    assert_true(narrow->is_favoured(&f->problem, &f->target));
    f->problem.c = 8;
    assert_true(narrow->applies(&f->problem, &f->target));
    assert_false(narrow->is_favoured(&f->problem, &f->target));
}

static bool is_favoured_on(struct fixture *f, const char *target)
{
    must(target_parse(bytes_of_text(target), &f->target, &f->err), f->err);
    return narrow->is_favoured(&f->problem, &f->target);
}

/* SDXL's decoder: on an H100, it takes 29 us with ConvImplicitGemm, and 517 us with this solver. */
TEST_F(solver, few_pixels_of_many_channels_are_left_to_fast_matrix_cores)
{
    f->problem.type = TYPE_FLOAT16;
    f->problem.x_layout = f->problem.w_layout = f->problem.y_layout = LAYOUT_CHANNELS_LAST;
    assert_true(is_favoured_on(f, "sm_90a"));
    f->problem.n = 1;
    f->problem.c = 4;
    f->problem.k = 512;
    f->problem.in = (struct extent){ 1, 128, 128 };
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.pad = (struct extent){ 0, 1, 1 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_false(is_favoured_on(f, "sm_90a"));
    assert_false(is_favoured_on(f, "sm_80"));
    assert_true(is_favoured_on(f, "sm_86")); /* the matrix cores of sm_86 are slower */
    assert_true(is_favoured_on(f, "gfx90a"));
}

static void put_first_layer_of_sdxl(struct fixture *f)
{
    f->problem.n = 2;
    f->problem.c = 4;
    f->problem.k = 320;
    f->problem.in = (struct extent){ 1, 128, 128 };
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.pad = (struct extent){ 0, 1, 1 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
}

/* SDXL's first layer: on an H200, it takes 45 us with the chosen config, 221 us without splits,
 * and 101 us with ConvWinograd. */
TEST_F(solver, work_groups_share_many_channels_of_few_pixels)
{
    struct perf_config config = { 0 };
    put_first_layer_of_sdxl(f);
    assert_ptr_equal(solver_choose(&f->problem, &f->target), narrow);
    assert_true(choice_is_valid(narrow, &f->problem, &f->target, &config));
    assert_in_range(config.values[4], 4, 32);
    assert_int_equal(solve(f, "4,4,32,4,16"), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 2);
    assert_int_equal(f->solution.kernels[0].grid[0], 2 * (128 / 32) * (128 / 16) * 16);
    /* number of channels in a split */
    assert_int_equal(f->solution.kernels[0].arguments[4].value, 20);
    assert_int_equal(f->solution.workspace_size, 16u * 2 * 4 * 128 * 128 * sizeof(float));
    f->problem.k = 64;
    assert_int_equal(solve(f, "4,4,32,4,8"), KILN_OK);
    /* with 16 splits, each part of the sum would have only four channels */
    assert_int_equal(solve(f, "4,4,32,4,16"), KILN_INVALID);
    f->problem.y_layout = LAYOUT_CHANNELS_LAST;
    assert_int_equal(solve(f, "4,4,32,4,8"), KILN_INVALID);
}

/* ResNeXt-50's groups of four channels: on an H200, they take 86 us with this solver (in fp32),
 * 168 us with ConvDirectNaive, and more than 400 us with any other. */
TEST_F(solver, forward_of_groups_with_few_channels_of_y_is_chosen)
{
    f->problem.direction = DIRECTION_FORWARD;
    f->problem.c = f->problem.k = 128;
    f->problem.groups = 32;
    f->problem.in = (struct extent){ 1, 56, 56 };
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.pad = (struct extent){ 0, 1, 1 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_ptr_equal(solver_choose(&f->problem, &f->target), narrow);
    f->problem.allow_tf32 = 1;
    assert_ptr_equal(solver_choose(&f->problem, &f->target), narrow);
    f->problem.allow_tf32 = 0;
    f->problem.type = TYPE_FLOAT16;
    assert_ptr_equal(solver_choose(&f->problem, &f->target), narrow);
    assert_int_equal(solve(f, ""), KILN_OK);
    const struct solution_kernel *k = &f->solution.kernels[0];
    assert_string_equal(k->name, "conv_direct_narrow_forward");
    assert_int_equal(k->arguments[1].kind, ARGUMENT_X);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_Y);
}

TEST_F(solver, forward_applies_without_strides_and_with_pads_within_the_filter)
{
    put_first_layer_of_sdxl(f);
    f->problem.direction = DIRECTION_FORWARD;
    f->problem.c = 320;
    f->problem.k = 4;
    assert_true(narrow->applies(&f->problem, &f->target));
    f->problem.pad.w = 3;
    assert_false(narrow->applies(&f->problem, &f->target));
    f->problem.pad.w = 2;
    assert_true(narrow->applies(&f->problem, &f->target));
    f->problem.stride.h = 2;
    assert_false(narrow->applies(&f->problem, &f->target));
}

/* On an H200, this config takes 465 us. The best config that a search found takes 482 us. Work
 * groups of 224 items take 1.7 times as long: a multiprocessor has registers for only one of them,
 * so no other work group hides its latency. */
TEST_F(solver, the_heuristic_takes_small_groups_that_hide_each_others_latency)
{
    struct perf_config config = { 0 };
    assert_true(choice_is_valid(narrow, &f->problem, &f->target, &config));
    assert_int_equal(config.values[0], 4);
    assert_int_equal(config.values[1], 4);
    assert_int_equal(config.values[2], 16);
    assert_int_equal(config.values[3], 4);
    assert_int_equal(config.values[4], 1);
}

/* The image has only 16 tiles of 32 x 32 pixels. With tiles of this size, most multiprocessors
 * would be idle. */
TEST_F(solver, the_heuristic_fills_the_device_with_one_image)
{
    f->problem.n = 1;
    f->problem.in = (struct extent){ 1, 128, 128 };
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.pad = (struct extent){ 0, 1, 1 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_in_range(f->solution.kernels[0].grid[0], 32, 1024);
}

TEST_F(solver, the_space_has_points_and_the_heuristic_takes_one)
{
    struct perf_config config = { 0 };
    assert_in_range(valid_points(narrow, &f->problem, &f->target), 30, 3000);
    assert_true(choice_is_valid(narrow, &f->problem, &f->target, &config));
    assert_int_equal(112 % (config.values[0] * config.values[1]), 0); /* no idle strips */
}

TEST_F(solver, the_heuristic_is_valid_for_the_smallest_problem)
{
    struct perf_config config = { 0 };
    f->problem.n = f->problem.c = f->problem.k = 1;
    f->problem.in = f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    assert_true(choice_is_valid(narrow, &f->problem, &f->target, &config));
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_int_equal(f->solution.kernels[0].grid[0], 1);
}

TEST_F(solver, the_grid_covers_images_groups_and_blocks)
{
    f->problem.c = 6;
    f->problem.groups = 2;
    assert_int_equal(solve(f, "8,7,16,4,1"), KILN_OK);
    const struct solution_kernel *k = &f->solution.kernels[0];
    assert_int_equal(f->solution.kernel_count, 1);
    assert_int_equal(f->solution.workspace_size, 0);
    assert_string_equal(k->name, "conv_direct_narrow_backward_data");
    assert_int_equal(k->group[0], 7 * 16);
    assert_int_equal(k->grid[0], 64 * 2 * (112 / 16) * (112 / (8 * 7)));
    assert_int_equal(k->arguments[0].kind, ARGUMENT_W);
    assert_int_equal(k->arguments[1].kind, ARGUMENT_Y);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_X);
}

TEST_F(solver, a_config_that_needs_too_much_is_refused)
{
    assert_int_equal(solve(f, "16,7,16,4,1"), KILN_INVALID); /* too many sums */
    assert_int_equal(solve(f, "8,14,32,4,1"), KILN_INVALID); /* too many items */
    assert_int_equal(solve(f, "8,14,16,4,1"), KILN_INVALID); /* too much shared memory */
    assert_int_equal(solve(f, "8,14,16,1,1"), KILN_OK);
    assert_int_equal(solve(f, "8,3,16,1,1"), KILN_INVALID);
    assert_non_null(strstr(f->err.text, "strips"));
}

TEST_F(solver, another_batch_size_compiles_nothing)
{
    static struct solution first;
    assert_int_equal(solve(f, "8,7,16,4,1"), KILN_OK);
    first = f->solution;
    f->problem.n = 7;
    assert_int_equal(solve(f, "8,7,16,4,1"), KILN_OK);
    assert_string_equal(first.programs[0].options, f->solution.programs[0].options);
}
