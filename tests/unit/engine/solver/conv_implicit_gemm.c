/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_implicit_gemm.h"

#include "engine/solver/conv_implicit_gemm_paths.h"
#include "tests/unit/engine/solver/solver_fixture.h"

#include <string.h>

static const char *const targets[] = { "gfx906",  "gfx908",  "gfx90a",  "gfx942",
                                       "gfx1030", "gfx1100", "gfx1201", "sm_90" };
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

enum { TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N, STAGES, SPLITS, PREPARE, ROWS_FIRST, AXES };

/* ResNet-50's 3x3 layer with stride 2, batch 8. */
SOLVER_FIXTURE("ConvImplicitGemm", "sm_90", .n = 8, .c = 128, .k = 256, .in = { 1, 56, 56 },
               .stride = { 1, 2, 2 });

static void make_pointwise(struct fixture *f)
{
    f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
}

static uint32_t count_valid(const struct fixture *f)
{
    struct perf_space space = igemm_path_vector.space(&f->problem, &f->target);
    uint32_t size = perf_space_size(&space), valid = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config config;
        perf_space_at(&space, i, &config);
        valid += igemm_path_vector.config_is_valid(&f->problem, &f->target, &config);
    }
    return valid;
}

TEST_F(solver, each_problem_has_exactly_one_path_on_every_target)
{
    for (uint32_t type = TYPE_FLOAT32; type <= TYPE_BFLOAT16; type++) {
        for (size_t i = 0; i < TARGETS; i++) {
            f->problem.type = type;
            set_target(f, targets[i]);
            const struct igemm_path *path = igemm_path_for(&f->problem, &f->target);
            assert_non_null(path);
            assert_true(path->applies(&f->problem, &f->target));
        }
    }
}

TEST_F(solver, fp32_goes_to_the_vector_path)
{
    for (size_t i = 0; i < TARGETS; i++) {
        set_target(f, targets[i]);
        assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    }
}

TEST_F(solver, does_not_apply_to_integers_or_very_large_filters)
{
    f->problem.filter = (struct extent){ 1, 15, 15 };
    f->problem.pad = (struct extent){ 0, 7, 7 };
    assert_true(igemm_path_vector.applies(&f->problem, &f->target));
    /* 16 rows, 15 columns and one plane of taps: one more than the 31 bits of a mask */
    f->problem.filter = (struct extent){ 1, 16, 15 };
    assert_false(igemm_path_vector.applies(&f->problem, &f->target));
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.type = TYPE_INT8;
    assert_false(igemm_path_vector.applies(&f->problem, &f->target));
}

TEST_F(solver, backward_data_does_not_apply_to_too_many_classes)
{
    f->problem.stride = (struct extent){ 1, 9, 8 };
    assert_true(igemm_path_vector.applies(&f->problem, &f->target));
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_false(igemm_path_vector.applies(&f->problem, &f->target));
    f->problem.stride = (struct extent){ 1, 8, 8 };
    assert_true(igemm_path_vector.applies(&f->problem, &f->target));
}

/* A mask has a bit for each row and each column of taps, but only if a tap can be outside the
 * image. */
TEST_F(solver, filters_of_any_size_apply_where_no_tap_is_masked)
{
    f->problem.filter = (struct extent){ 1, 16, 16 };
    f->problem.stride = (struct extent){ 1, 8, 8 };
    assert_false(igemm_path_vector.applies(&f->problem, &f->target));
    f->problem.pad = (struct extent){ 0, 0, 0 };
    assert_true(igemm_path_vector.applies(&f->problem, &f->target));
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_false(igemm_path_vector.applies(&f->problem, &f->target));
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.pad = (struct extent){ 0, 1, 1 };
    assert_true(igemm_path_vector.applies(&f->problem, &f->target));
}

static uint64_t count_work_groups(struct fixture *f, const char *config)
{
    assert_int_equal(solve(f, config), KILN_OK);
    return f->solution.kernels[f->solution.kernel_count - 1].grid[0];
}

TEST_F(solver, backward_data_of_patches_has_a_row_for_each_channel_and_tap)
{
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.c = 3;
    f->problem.pad = (struct extent){ 0, 0, 0 };
    f->problem.filter = f->problem.stride = (struct extent){ 1, 16, 16 };
    f->problem.in = (struct extent){ 1, 64, 64 };
    assert_ptr_equal(solver_choose(&f->problem, &f->target), &solver_conv_implicit_gemm);
    /* The product has 768 rows. Its columns are the 16 output pixels of each of 8 images. */
    assert_int_equal(count_work_groups(f, "128,64,8,8,8,2,1,0,1"), 6 * 2);
    f->problem.in.w = 65; /* no output reads the last column of x */
    assert_false(igemm_path_vector.applies(&f->problem, &f->target));
}

/* Problems like the heads of segmentation networks, and ResNeXt's groups of four channels. */
TEST_F(solver, is_chosen_before_the_naive_solver_where_tiles_are_mostly_empty)
{
    f->problem.spatial_dims = 3;
    f->problem.filter = (struct extent){ 3, 3, 3 };
    f->problem.pad.d = 1;
    f->problem.in.d = 8;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        for (uint32_t rows = 1; rows < 8; rows++) {
            f->problem.c = direction == DIRECTION_BACKWARD_DATA ? rows : 32;
            f->problem.k = direction == DIRECTION_BACKWARD_DATA ? 32 : rows;
            assert_ptr_equal(solver_choose(&f->problem, &f->target), &solver_conv_implicit_gemm);
        }
    }
    f->problem.c = f->problem.k = 128;
    f->problem.groups = 32;
    assert_ptr_equal(solver_choose(&f->problem, &f->target), &solver_conv_implicit_gemm);
}

TEST_F(solver, the_space_has_hundreds_of_valid_points_in_every_direction)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(count_valid(f), 500, 50000);
    }
    make_pointwise(f);
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(count_valid(f), 500, 50000);
    }
}

TEST_F(solver, the_heuristic_is_valid_for_every_target_type_and_direction)
{
    for (size_t i = 0; i < TARGETS; i++) {
        for (uint32_t at = 0; at < 9; at++) {
            struct perf_config config;
            set_target(f, targets[i]);
            f->problem.direction = at % 3;
            f->problem.type = at / 3;
            igemm_path_vector.choose_config(&f->problem, &f->target, &config);
            assert_true(igemm_path_vector.config_is_valid(&f->problem, &f->target, &config));
        }
    }
}

TEST_F(solver, the_heuristic_is_valid_for_the_smallest_problem)
{
    struct perf_config config;
    make_pointwise(f);
    f->problem.n = f->problem.c = f->problem.k = 1;
    f->problem.in = (struct extent){ 1, 1, 1 };
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        igemm_path_vector.choose_config(&f->problem, &f->target, &config);
        assert_true(igemm_path_vector.config_is_valid(&f->problem, &f->target, &config));
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_int_equal(f->solution.kernels[0].grid[0], 1);
    }
}

/* The filter takes 1.7 GB, so the workspace has no space for a rearranged copy. */
TEST_F(solver, weights_too_large_to_rearrange_are_read_as_they_come)
{
    f->problem.c = f->problem.k = 4096;
    f->problem.filter = (struct extent){ 1, 5, 5 };
    f->problem.pad = (struct extent){ 0, 2, 2 };
    for (size_t i = 0; i < 2 * TARGETS; i++) {
        set_target(f, targets[i / 2]);
        /* only two directions, because backward weights never rearranges the filter */
        f->problem.direction = i % 2;
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_int_equal(f->solution.config.values[PREPARE], 0);
        assert_true(
            igemm_path_vector.config_is_valid(&f->problem, &f->target, &f->solution.config));
        assert_int_equal(solve(f, "32,64,8,4,4,2,1,1,1"), KILN_INVALID);
    }
}

static void expect_default(struct fixture *f, const char *expected)
{
    struct perf_config config;
    char text[PERF_CONFIG_TEXT_MAX];
    igemm_path_vector.choose_config(&f->problem, &f->target, &config);
    perf_config_write(&config, text);
    assert_string_equal(text, expected);
}

struct layer {
    enum direction direction;
    uint32_t c, k, size, filter, stride;
};

static void make_layer(struct fixture *f, struct layer l)
{
    f->problem.direction = l.direction;
    f->problem.n = 64;
    f->problem.c = l.c;
    f->problem.k = l.k;
    f->problem.in = (struct extent){ 1, l.size, l.size };
    f->problem.filter = (struct extent){ 1, l.filter, l.filter };
    f->problem.pad = (struct extent){ 0, l.filter / 2, l.filter / 2 };
    f->problem.stride = (struct extent){ 1, l.stride, l.stride };
}

/* On an H200, each of these configs takes at most 15 % longer than the best of dozens that were
 * tried. */
TEST_F(solver, the_heuristic_is_as_measured_for_layers_of_resnet_50)
{
    make_layer(f, (struct layer){ DIRECTION_FORWARD, 3, 64, 224, 7, 2 });
    expect_default(f, "64,128,16,8,8,3,1,1,1");
    make_layer(f, (struct layer){ DIRECTION_FORWARD, 64, 64, 56, 1, 1 });
    expect_default(f, "64,128,16,8,8,3,1,0,1");
    /* This layer has few tiles with long sums. */
    make_layer(f, (struct layer){ DIRECTION_FORWARD, 2048, 512, 7, 1, 1 });
    expect_default(f, "64,64,16,8,4,3,1,1,1");
    make_layer(f, (struct layer){ DIRECTION_BACKWARD_DATA, 64, 64, 56, 3, 1 });
    expect_default(f, "64,128,16,8,8,3,1,1,1");
    make_layer(f, (struct layer){ DIRECTION_BACKWARD_DATA, 512, 512, 14, 3, 2 });
    expect_default(f, "64,64,16,8,4,3,1,1,1");
    make_layer(f, (struct layer){ DIRECTION_BACKWARD_WEIGHTS, 3, 64, 224, 7, 2 });
    expect_default(f, "64,64,8,8,8,3,256,0,1");
    make_layer(f, (struct layer){ DIRECTION_BACKWARD_WEIGHTS, 512, 128, 28, 1, 1 });
    expect_default(f, "128,128,16,8,8,2,64,0,1");
    make_layer(f, (struct layer){ DIRECTION_BACKWARD_WEIGHTS, 512, 512, 7, 3, 1 });
    expect_default(f, "128,64,16,8,8,3,4,0,1");
}

/* Backward data has sums of different lengths. With many tiles, long and short sums alternate;
 * with few tiles, the long sums go first. */
TEST_F(solver, backward_data_with_strides_orders_its_tiles_by_how_many_there_are)
{
    struct perf_config config;
    make_layer(f, (struct layer){ DIRECTION_BACKWARD_DATA, 128, 128, 56, 3, 2 });
    igemm_path_vector.choose_config(&f->problem, &f->target, &config);
    assert_int_equal(config.values[ROWS_FIRST], 0);
    f->problem.n = 8;
    igemm_path_vector.choose_config(&f->problem, &f->target, &config);
    assert_int_equal(config.values[ROWS_FIRST], 1);
}

TEST_F(solver, each_program_brings_its_headers)
{
    assert_int_equal(solve(f, "64,128,8,8,8,3,1,1,0"), KILN_OK);
    for (uint32_t i = 0; i < f->solution.program_count; i++) {
        const struct solution_program *program = &f->solution.programs[i];
        assert_int_equal(program->header_count, 4);
        for (uint32_t h = 0; h < program->header_count; h++) {
            assert_int_equal(strncmp(program->header_names[h], "kiln/", 5), 0);
            assert_true(program->header_texts[h].size > 0);
        }
    }
}

TEST_F(solver, a_config_survives_its_text)
{
    char text[PERF_CONFIG_TEXT_MAX];
    assert_int_equal(solve(f, "64,128,8,8,8,3,2,1,0"), KILN_OK);
    perf_config_write(&f->solution.config, text);
    assert_string_equal(text, "64,128,8,8,8,3,2,1,0");
}

TEST_F(solver, an_unknown_value_is_refused_by_its_axis_name)
{
    assert_int_equal(solve(f, "64,100,8,8,8,3,1,1,0"), KILN_INVALID);
    assert_non_null(strstr(f->err.text, "tile_n"));
    assert_non_null(strstr(f->err.text, "ConvImplicitGemm"));
}

TEST_F(solver, a_config_that_needs_too_much_is_refused)
{
    assert_int_equal(solve(f, "256,256,32,16,8,4,1,1,0"),
                     KILN_INVALID); /* too much shared memory */
    assert_int_equal(solve(f, "128,128,8,16,16,2,1,1,0"), KILN_INVALID); /* too many registers */
    assert_int_equal(solve(f, "16,16,8,4,4,2,1,1,0"), KILN_INVALID);     /* only 16 items */
    /* more splits than steps of the sum */
    assert_int_equal(solve(f, "64,128,8,8,8,2,256,1,0"), KILN_INVALID);
}

TEST_F(solver, weights_are_rearranged_multiplied_and_summed_in_this_order)
{
    assert_int_equal(solve(f, "64,128,8,8,8,3,2,1,0"), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 3);
    assert_string_equal(f->solution.kernels[0].name, "conv_implicit_gemm_vector_prepare");
    assert_string_equal(f->solution.kernels[1].name, "conv_implicit_gemm_vector_forward");
    assert_string_equal(f->solution.kernels[2].name, "conv_split_reduce_sum");

    uint64_t prepared = 256 * 128 * 9 * 4, y = 8ull * 256 * 28 * 28 * 4;
    assert_int_equal(f->solution.workspace_size, prepared + 2 * y);
    assert_int_equal(f->solution.kernels[1].arguments[0].kind, ARGUMENT_WORKSPACE);
    assert_int_equal(f->solution.kernels[1].arguments[2].kind, ARGUMENT_WORKSPACE);
    assert_int_equal(f->solution.kernels[1].arguments[2].value, prepared);
    assert_int_equal(f->solution.kernels[2].arguments[0].value, prepared);
    assert_int_equal(f->solution.kernels[2].arguments[1].kind, ARGUMENT_Y);
}

TEST_F(solver, a_plain_product_needs_no_workspace)
{
    make_pointwise(f);
    assert_int_equal(solve(f, "64,128,8,8,8,3,1,0,1"), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 1);
    assert_int_equal(f->solution.workspace_size, 0);
    assert_int_equal(f->solution.kernels[0].arguments[0].kind, ARGUMENT_W);
    assert_int_equal(f->solution.kernels[0].arguments[1].kind, ARGUMENT_X);
    assert_int_equal(f->solution.kernels[0].arguments[2].kind, ARGUMENT_Y);
}

TEST_F(solver, the_grid_covers_rows_pixels_groups_and_splits)
{
    f->problem.groups = 2;
    assert_int_equal(solve(f, "64,128,8,8,8,3,3,1,0"), KILN_OK);
    const struct solution_kernel *k = kernel_named(f, "conv_implicit_gemm_vector_forward");
    assert_int_equal(k->group[0], 128);
    assert_int_equal(k->grid[0], 128 / 64 * (8 * 28 * 28 / 128) * 2 * 3);
}

/* The residue of a pixel modulo the stride decides which taps reach it. Each of the four residues
 * has 28 x 28 pixels. */
TEST_F(solver, backward_data_tiles_each_residue_for_itself)
{
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.n = 1;
    assert_int_equal(solve(f, "64,128,8,8,8,3,1,1,0"), KILN_OK);
    const struct solution_kernel *k = kernel_named(f, "conv_implicit_gemm_vector_backward_data");
    assert_int_equal(k->grid[0], 128 / 64 * 4 * ((28 * 28 + 127) / 128));
}

TEST_F(solver, configs_that_differ_in_splits_and_order_alone_share_their_programs)
{
    static struct solution first;
    assert_int_equal(solve(f, "64,128,8,8,8,3,2,1,0"), KILN_OK);
    first = f->solution;
    assert_int_equal(solve(f, "64,128,8,8,8,3,4,1,1"), KILN_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_string_equal(first.programs[i].options, f->solution.programs[i].options);
}

TEST_F(solver, another_batch_size_compiles_nothing)
{
    static struct solution first;
    assert_int_equal(solve(f, "64,128,8,8,8,3,1,1,0"), KILN_OK);
    first = f->solution;
    f->problem.n = 7;
    assert_int_equal(solve(f, "64,128,8,8,8,3,1,1,0"), KILN_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_string_equal(first.programs[i].options, f->solution.programs[i].options);
}

TEST_F(solver, only_nvidia_copies_past_the_registers_and_in_fp32_alone)
{
    struct perf_config config;
    for (size_t i = 0; i < TARGETS; i++) {
        for (uint32_t type = TYPE_FLOAT32; type <= TYPE_BFLOAT16; type++) {
            f->problem.type = type;
            set_target(f, targets[i]);
            igemm_path_vector.choose_config(&f->problem, &f->target, &config);
            assert_int_equal(
                igemm_path_vector.solve(&f->problem, &f->target, &config, &f->solution, &f->err),
                KILN_OK);
            const char *options = f->solution.programs[f->solution.kernels[1].program].options;
            bool async = strstr(options, "-DKILN_ASYNC=1") != NULL;
            assert_int_equal(async, f->target.family == TARGET_NVIDIA && type == TYPE_FLOAT32);
        }
    }
}

/* cp.async needs compute capability 8.0. */
TEST_F(solver, older_gpus_of_nvidias_copy_through_registers)
{
    static const char *const older[] = { "sm_70", "sm_75" };
    for (size_t i = 0; i < 2; i++) {
        set_target(f, older[i]);
        assert_int_equal(solve(f, ""), KILN_OK);
        for (uint32_t k = 0; k < f->solution.program_count; k++)
            assert_null(strstr(f->solution.programs[k].options, "-DKILN_ASYNC=1"));
        assert_int_equal(solve(f, "64,128,8,8,8,1,1,1,0"), KILN_OK);
        /* three stages need cp.async */
        assert_int_equal(solve(f, "64,128,8,8,8,3,1,1,0"), KILN_INVALID);
    }
}

/* TF32 needs compute capability 8.0. Tensors with channels last need no packing. */
TEST_F(solver, tf32_is_used_where_the_problem_allows_it_and_the_gpu_has_it)
{
    set_target(f, "sm_90");
    assert_int_equal(solve(f, ""), KILN_OK);
    const char *product = "conv_implicit_gemm_vector_forward";
    const struct solution_program *programs = f->solution.programs;
    assert_null(strstr(programs[kernel_named(f, product)->program].options, "TF32"));
    f->problem.allow_tf32 = 1;
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_non_null(strstr(programs[kernel_named(f, product)->program].options, "-DKILN_TF32=1"));
    set_target(f, "sm_75");
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_null(strstr(programs[kernel_named(f, product)->program].options, "TF32"));
    f->problem.x_layout = f->problem.y_layout = LAYOUT_CHANNELS_LAST;
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    set_target(f, "sm_80");
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
    set_target(f, "gfx90a");
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
}

TEST_F(solver, tf32_needs_tiles_that_warps_fill)
{
    f->problem.allow_tf32 = 1;
    set_target(f, "sm_90");
    assert_int_equal(solve(f, "64,128,16,8,8,3,1,1,0"), KILN_OK);
    const struct solution_kernel *product = kernel_named(f, "conv_implicit_gemm_vector_forward");
    assert_int_equal(product->group[0], 128);
    assert_int_equal(product->shared_bytes, 3 * 16 * (64 + 8 + 128 + 8) * 4);
    assert_int_equal(solve(f, "64,128,16,16,8,3,1,1,0"), KILN_INVALID);
    assert_int_equal(solve(f, "64,128,16,8,4,3,1,1,0"), KILN_INVALID);
}

TEST_F(solver, a_small_output_of_many_parts_is_summed_by_many_items)
{
    make_pointwise(f);
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.c = f->problem.k = 64;
    assert_int_equal(solve(f, "64,64,8,8,8,3,128,0,1"), KILN_OK);
    const struct solution_kernel *k = kernel_named(f, "conv_split_reduce_sum");
    assert_non_null(strstr(f->solution.programs[k->program].options, "-DKILN_SLICES=64"));
    assert_int_equal(k->grid[0], 64 * 64 / (256 / 64));
}
