/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_pointwise.h"

#include "tests/unit/engine/solver/solver_fixture.h"
#include "tests/unit/engine/solver/spaces.h"

static const struct solver *const pointwise = &solver_conv_pointwise;

/* The last layer of a network that segments volumes. */
SOLVER_FIXTURE("ConvPointwise", "sm_90a", .direction = DIRECTION_BACKWARD_DATA, .spatial_dims = 3,
               .type = TYPE_FLOAT16, .n = 2, .c = 128, .k = 3, .in = { 32, 32, 32 },
               .filter = { 1, 1, 1 });

TEST_F(solver, is_chosen_where_few_channels_are_read)
{
    for (uint32_t type = TYPE_FLOAT32; type <= TYPE_BFLOAT16; type++) {
        f->problem.type = type;
        f->problem.allow_tf32 = type == TYPE_FLOAT32;
        assert_ptr_equal(solver_choose(&f->problem, &f->target), pointwise);
    }
    f->problem.k = 8;
    assert_true(pointwise->applies(&f->problem, &f->target));
    assert_false(pointwise->is_favoured(&f->problem, &f->target));
    f->problem.k = 9;
    assert_false(pointwise->applies(&f->problem, &f->target));
}

TEST_F(solver, is_chosen_where_few_channels_are_computed)
{
    f->problem.direction = DIRECTION_FORWARD;
    assert_ptr_equal(solver_choose(&f->problem, &f->target), pointwise);
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_string_equal(f->solution.kernels[0].name, "conv_pointwise_gather");
    /* The sum is split into 8 parts, because there are only 2 images with 8192 vectors of 4
     * pixels. */
    assert_int_equal(f->solution.config.values[0], 8);
    assert_int_equal(f->solution.config.values[1], 4);
    assert_int_equal(f->solution.kernels[0].arguments[1].kind, ARGUMENT_X);
    assert_int_equal(f->solution.kernels[0].arguments[2].kind, ARGUMENT_Y);
    assert_int_equal(solve(f, "4,4,128"), KILN_OK);
    assert_int_equal(f->solution.kernels[0].grid[0], 2 * 32 * 32 * 32 / (4 * 32));
    assert_int_equal(solve(f, "16,1,128"), KILN_OK);
    f->problem.c = 120;
    /* with 16 parts, each part would have fewer than eight channels */
    assert_int_equal(solve(f, "16,1,128"), KILN_INVALID);
    f->problem.c = 1025; /* the weights do not fit shared memory */
    assert_false(pointwise->applies(&f->problem, &f->target));
}

/* A layer of YOLOv8: on an H200, it takes 6.5 us with this solver, at least 7.5 us with
 * ConvDirectNarrow, and 38 us with ConvImplicitGemm. */
TEST_F(solver, is_chosen_for_one_channel_of_a_wide_image)
{
    f->problem.n = f->problem.c = 16;
    f->problem.k = 1;
    f->problem.in = (struct extent){ 1, 4, 8400 };
    assert_ptr_equal(solver_choose(&f->problem, &f->target), pointwise);
}

TEST_F(solver, does_not_apply_to_backward_weights_or_many_channels)
{
    f->problem.k = 64;
    assert_false(pointwise->applies(&f->problem, &f->target));
    f->problem.k = 3;
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_false(pointwise->applies(&f->problem, &f->target));
}

TEST_F(solver, does_not_apply_to_taps_strides_pads_or_channels_last)
{
    f->problem.filter.w = 2;
    assert_false(pointwise->applies(&f->problem, &f->target));
    f->problem.filter.w = 1;
    f->problem.stride.d = 2;
    assert_false(pointwise->applies(&f->problem, &f->target));
    f->problem.stride.d = 1;
    f->problem.pad.h = 1;
    assert_false(pointwise->applies(&f->problem, &f->target));
    f->problem.pad.h = 0;
    assert_true(pointwise->applies(&f->problem, &f->target));
    f->problem.x_layout = LAYOUT_CHANNELS_LAST;
    assert_false(pointwise->applies(&f->problem, &f->target));
}

TEST_F(solver, the_heuristic_fills_the_device)
{
    struct perf_config config = { 0 };
    assert_true(choice_is_valid(pointwise, &f->problem, &f->target, &config));
    /* An item computes 32 channels of a pixel. That makes 4 blocks of channels for each of 32768
     * pixels in 2 images. */
    assert_int_equal(config.values[0], 32);
    f->problem.type = TYPE_FLOAT32;
    assert_true(choice_is_valid(pointwise, &f->problem, &f->target, &config));
    /* An item computes 16 channels of 4 pixels. That makes 8 blocks of channels for each of 8192
     * vectors of pixels in 2 images. */
    assert_int_equal(config.values[0], 16);
    assert_int_equal(config.values[1], 4);
    f->problem.in.w = 33;
    f->problem.in.h = f->problem.in.d = 1;
    assert_true(choice_is_valid(pointwise, &f->problem, &f->target, &config));
    assert_int_equal(config.values[0], 8);
    assert_int_equal(config.values[1], 1); /* 33 pixels cannot be divided into vectors */
}

TEST_F(solver, the_grid_covers_images_groups_channels_and_pixels)
{
    f->problem.c = 12;
    f->problem.k = 4;
    f->problem.groups = 2;
    assert_int_equal(solve(f, "4,4,64"), KILN_OK);
    const struct solution_kernel *k = &f->solution.kernels[0];
    assert_int_equal(k->group[0], 64);
    assert_int_equal(k->grid[0], 2 * 2 * 2 * (32 * 32 * 32 / (4 * 64)));
    assert_int_equal(k->arguments[1].kind, ARGUMENT_Y);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_X);
    assert_int_equal(f->solution.workspace_size, 0);
    assert_string_equal(k->name, "conv_pointwise_spread");
    assert_int_equal(solve(f, "16,4,64"), KILN_INVALID); /* a group has only 6 channels */
}
