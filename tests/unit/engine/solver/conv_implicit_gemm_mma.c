/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_implicit_gemm.h"

#include "engine/solver/conv_implicit_gemm_paths.h"
#include "tests/unit/engine/solver/solver_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const nvidia[] = { "sm_80",  "sm_86",  "sm_89", "sm_90",
                                      "sm_90a", "sm_100", "sm_120" };
static const char *const amd[] = {
    "gfx908", "gfx90a:sramecc+:xnack-", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"
};
static const char *const others[] = { "sm_70",   "sm_75",   "gfx900",     "gfx906",
                                      "gfx1010", "gfx1030", "opencl:test" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ResNet-50's 3x3 layer with stride 2, in fp16, batch 8. */
SOLVER_FIXTURE("ConvImplicitGemm", "sm_90", .type = TYPE_FLOAT16, .n = 8, .c = 128, .k = 256,
               .in = { 1, 56, 56 }, .stride = { 1, 2, 2 }, CHANNELS_LAST);

static void shrink(struct fixture *f)
{
    f->problem.n = f->problem.c = f->problem.k = 1;
    f->problem.in = f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
}

static enum kiln_code solve_on(struct fixture *f, const char *target, const char *config)
{
    set_target(f, target);
    return solve(f, config);
}

/* Returns the value of -DKILN_<name>= in the program of |kernel|, or -1 if it is not defined. */
static long option(const struct fixture *f, const char *kernel, const char *name)
{
    const struct solution_kernel *k = kernel_named(f, kernel);
    assert_non_null(k);
    char text[64];
    snprintf(text, sizeof(text), "-DKILN_%s=", name);
    const char *at = strstr(f->solution.programs[k->program].options, text);
    return at ? strtol(at + strlen(text), NULL, 10) : -1;
}

TEST_F(solver, fp16_and_bf16_go_to_the_matrix_cores_of_each_vendor)
{
    for (uint32_t type = TYPE_FLOAT16; type <= TYPE_BFLOAT16; type++) {
        f->problem.type = type;
        for (size_t i = 0; i < COUNT(nvidia); i++) {
            set_target(f, nvidia[i]);
            assert_true(igemm_path_mma.applies(&f->problem, &f->target));
            assert_false(igemm_path_mfma.applies(&f->problem, &f->target));
        }
        for (size_t i = 0; i < COUNT(amd); i++) {
            set_target(f, amd[i]);
            assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mfma);
            assert_false(igemm_path_mma.applies(&f->problem, &f->target));
        }
    }
}

TEST_F(solver, targets_without_matrix_units_use_the_vector_units)
{
    for (size_t i = 0; i < COUNT(others); i++) {
        set_target(f, others[i]);
        assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    }
}

TEST_F(solver, do_not_apply_to_fp32_or_very_large_filters)
{
    f->problem.filter = (struct extent){ 1, 15, 15 };
    f->problem.pad = (struct extent){ 0, 7, 7 };
    set_target(f, "sm_90");
    assert_true(igemm_path_mma.applies(&f->problem, &f->target));
    /* 16 rows, 15 columns and one plane of taps: one more than the 31 bits of a mask */
    f->problem.filter = (struct extent){ 1, 16, 15 };
    assert_false(igemm_path_mma.applies(&f->problem, &f->target));
    set_target(f, "gfx942");
    assert_false(igemm_path_mfma.applies(&f->problem, &f->target));
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.type = TYPE_FLOAT32;
    assert_false(igemm_path_mfma.applies(&f->problem, &f->target));
    set_target(f, "sm_90");
    assert_false(igemm_path_mma.applies(&f->problem, &f->target));
}

/* Packing pads each pixel to eight channels. An image of 16384 x 16384 pixels would grow to 2^31
 * elements, more than an index can count. */
TEST_F(solver, do_not_apply_where_packing_would_outgrow_an_index)
{
    shrink(f);
    f->problem.in = (struct extent){ 1, 16384, 16384 };
    set_target(f, "sm_90");
    assert_false(igemm_path_mma.applies(&f->problem, &f->target));
    f->problem.in = (struct extent){ 1, 8192, 8192 };
    assert_true(igemm_path_mma.applies(&f->problem, &f->target));
}

/* Backward data numbers the channels of the pixels of x, as if the length of each axis were a
 * multiple of its stride. The numbers must fit 31 bits. */
TEST_F(solver, do_not_apply_where_strides_have_too_many_remainders)
{
    shrink(f);
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    /* The axes count as 4096 and 65535 pixels long. With 8 channels per pixel, these are 2^31 -
     * 32768 numbers. */
    f->problem.stride = (struct extent){ 1, 4096, 65535 };
    set_target(f, "sm_90");
    assert_true(igemm_path_mma.applies(&f->problem, &f->target));
    f->problem.stride.w = 65536;
    assert_false(igemm_path_mma.applies(&f->problem, &f->target));
    set_target(f, "gfx90a");
    assert_false(igemm_path_mfma.applies(&f->problem, &f->target));
    f->problem.direction = DIRECTION_FORWARD;
    assert_true(igemm_path_mfma.applies(&f->problem, &f->target));
}

TEST_F(solver, are_not_favoured_for_groups_of_few_channels)
{
    set_target(f, "sm_90");
    assert_true(igemm_path_mma.is_favoured(&f->problem, &f->target));
    f->problem.groups = 128;
    assert_false(igemm_path_mma.is_favoured(&f->problem, &f->target));
    assert_false(igemm_path_mfma.is_favoured(&f->problem, &f->target));
}

/* DCGAN's last layer. Packing y, which has one channel, takes longer than the products. */
TEST_F(solver, are_not_favoured_for_small_backward_data_of_one_channel)
{
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.n = 128;
    f->problem.c = 512;
    f->problem.k = 1;
    f->problem.in = f->problem.filter = (struct extent){ 1, 4, 4 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    set_target(f, "sm_90a");
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    f->problem.n = 1024;
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
}

/* DCGAN's last layer in NCHW: on an H200, packing y and w takes 14 us in fp16. The whole layer
 * takes 4.5 us on the vector path in TF32, which packs nothing. */
TEST_F(solver, are_not_favoured_for_backward_weights_of_one_pixel_and_few_channels)
{
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.n = 128;
    f->problem.c = 512;
    f->problem.k = 1;
    f->problem.in = f->problem.filter = (struct extent){ 1, 4, 4 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    set_target(f, "sm_90a");
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_int_equal(f->solution.config.values[2], 32); /* four steps for the 128 images */
    f->problem.k = 8;
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
    f->problem.k = 1;
    f->problem.pad.w = 1; /* y then has three pixels */
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
}

static void expect_many_valid(struct fixture *f, const struct igemm_path *path)
{
    struct perf_space space = path->space(&f->problem, &f->target);
    uint32_t size = perf_space_size(&space), valid = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config config;
        perf_space_at(&space, i, &config);
        valid += path->config_is_valid(&f->problem, &f->target, &config);
    }
    assert_in_range(valid, 200, 20000);
}

TEST_F(solver, the_spaces_have_hundreds_of_valid_points_in_every_direction)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        set_target(f, "sm_90");
        expect_many_valid(f, &igemm_path_mma);
        set_target(f, "sm_90a");
        expect_many_valid(f, &igemm_path_mma);
        set_target(f, "gfx90a");
        expect_many_valid(f, &igemm_path_mfma);
        set_target(f, "gfx1201");
        expect_many_valid(f, &igemm_path_mfma);
    }
}

#define WGMMA "128,128,64,8,1,4,1,1,0,1"

static bool is_wgmma(const struct perf_config *config)
{
    return config->values[config->count - 1] == 1;
}

/* Makes the problem ResNet-50's 3x3 layer at 14x14, batch 64. */
static void enlarge(struct fixture *f)
{
    f->problem.n = 64;
    f->problem.c = f->problem.k = 256;
    f->problem.in = (struct extent){ 1, 14, 14 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
}

TEST_F(solver, wgmma_is_for_sm_90a_alone)
{
    char text[PERF_CONFIG_TEXT_MAX];
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        for (size_t i = 0; i < COUNT(nvidia); i++) {
            bool is_expected = strcmp(nvidia[i], "sm_90a") == 0;
            assert_int_equal(solve_on(f, nvidia[i], WGMMA), is_expected ? KILN_OK : KILN_INVALID);
            assert_int_equal(solve_on(f, nvidia[i], ""), KILN_OK);
            if (!is_expected)
                assert_false(is_wgmma(&f->solution.config));
        }
    }
    assert_int_equal(solve_on(f, "sm_90a", WGMMA), KILN_OK);
    perf_config_write(&f->solution.config, text);
    assert_string_equal(text, WGMMA);
}

TEST_F(solver, no_point_with_wgmma_is_valid_on_another_target)
{
    static const char *const without[] = { "sm_80", "sm_90", "sm_100" };
    for (size_t i = 0; i < COUNT(without); i++) {
        set_target(f, without[i]);
        struct perf_space space = igemm_path_mma.space(&f->problem, &f->target);
        uint32_t size = perf_space_size(&space);
        for (uint32_t at = 0; at < size; at++) {
            struct perf_config config;
            perf_space_at(&space, at, &config);
            if (is_wgmma(&config))
                assert_false(igemm_path_mma.config_is_valid(&f->problem, &f->target, &config));
        }
    }
}

TEST_F(solver, wgmma_refuses_shapes_that_four_warps_cannot_share)
{
    enlarge(f);
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_int_equal(solve_on(f, "sm_90a", WGMMA), KILN_OK);
    assert_int_equal(solve_on(f, "sm_90a", "128,128,64,2,1,4,1,1,0,1"),
                     KILN_INVALID); /* two warps */
    /* A team would have only 32 rows. */
    assert_int_equal(solve_on(f, "sm_90a", "64,128,64,8,1,4,1,1,0,1"), KILN_INVALID);
    assert_int_equal(solve_on(f, "sm_90a", "128,256,64,4,4,3,1,1,0,1"), KILN_INVALID); /* 4 teams */
    assert_int_equal(solve_on(f, "sm_90a", "128,128,64,8,1,2,1,1,0,1"),
                     KILN_INVALID); /* too few stages */
    assert_int_equal(solve_on(f, "sm_90a", "128,256,64,4,1,3,1,1,0,1"),
                     KILN_INVALID); /* too many sums */
    /* wgmma reads nothing through L1. */
    assert_int_equal(solve_on(f, "sm_90a", "128,128,64,8,1,4,1,1,1,1"), KILN_INVALID);
    /* The tiles would take 240 KiB. */
    assert_int_equal(solve_on(f, "sm_90a", "256,128,64,8,1,5,1,1,0,1"), KILN_INVALID);
}

/* wgmma reads a transposed operand in panels of 64 columns. Only forward transposes no operand. */
TEST_F(solver, wgmma_takes_32_columns_forward_alone)
{
    static const char narrow[] = "128,64,64,4,2,3,1,1,0,1";
    enlarge(f);
    assert_int_equal(solve_on(f, "sm_90a", narrow), KILN_OK);
    assert_int_equal(option(f, "conv_implicit_gemm_mma_forward", "WIDE"), 32);
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_int_equal(solve_on(f, "sm_90a", narrow), KILN_INVALID);
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_int_equal(solve_on(f, "sm_90a", narrow), KILN_INVALID);
}

TEST_F(solver, large_problems_on_sm_90a_take_wgmma_unasked)
{
    enlarge(f);
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        for (uint32_t type = TYPE_FLOAT16; type <= TYPE_BFLOAT16; type++) {
            f->problem.type = type;
            assert_int_equal(solve_on(f, "sm_90a", ""), KILN_OK);
            assert_true(is_wgmma(&f->solution.config));
        }
    }
}

/* With compute capability 9.0, a work group has at most 227 KiB of shared memory. */
static void expect_launch_fits(const struct fixture *f)
{
    const struct solution_kernel *k = NULL;
    for (uint32_t i = 0; i < f->solution.kernel_count; i++)
        if (strstr(f->solution.kernels[i].name, "gemm_mma"))
            k = &f->solution.kernels[i];
    assert_non_null(k);
    const uint16_t *v = f->solution.config.values;
    assert_int_equal(k->group[0], 32 * v[3] * v[4]);
    assert_in_range(k->group[0], 128, 512);
    assert_in_range(k->grid[0], 1, INT32_MAX);
    assert_in_range(k->shared_bytes, v[5] * (v[0] + v[1]) * v[2] * 2, 227 * 1024);
    assert_int_equal(option(f, k->name, "WIDE"), v[1] / v[4]);
}

TEST_F(solver, every_valid_point_with_wgmma_fits_a_multiprocessor)
{
    enlarge(f);
    set_target(f, "sm_90a");
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        struct perf_space space = igemm_path_mma.space(&f->problem, &f->target);
        uint32_t size = perf_space_size(&space), valid = 0;
        for (uint32_t i = 0; i < size; i++) {
            struct perf_config config;
            char text[PERF_CONFIG_TEXT_MAX];
            perf_space_at(&space, i, &config);
            if (!is_wgmma(&config) ||
                !igemm_path_mma.config_is_valid(&f->problem, &f->target, &config))
                continue;
            perf_config_write(&config, text);
            assert_int_equal(solve_on(f, "sm_90a", text), KILN_OK);
            expect_launch_fits(f);
            valid++;
        }
        assert_in_range(valid, 50, 20000);
    }
}

static void expect_valid_choice(struct fixture *f, const char *target)
{
    struct perf_config config;
    set_target(f, target);
    const struct igemm_path *path = igemm_path_for(&f->problem, &f->target);
    path->choose_config(&f->problem, &f->target, &config);
    assert_true(path->config_is_valid(&f->problem, &f->target, &config));
    assert_int_equal(solve_on(f, target, ""), KILN_OK);
}

TEST_F(solver, the_heuristic_is_valid_on_every_target_in_every_direction)
{
    for (unsigned round = 0; round < 2; round++) {
        for (uint32_t direction = 0; direction < 3; direction++) {
            f->problem.direction = direction;
            for (size_t i = 0; i < COUNT(nvidia); i++)
                expect_valid_choice(f, nvidia[i]);
            for (size_t i = 0; i < COUNT(amd); i++)
                expect_valid_choice(f, amd[i]);
        }
        shrink(f);
    }
}

TEST_F(solver, a_config_survives_its_text)
{
    char text[PERF_CONFIG_TEXT_MAX];
    assert_int_equal(solve_on(f, "sm_90", "128,128,64,2,2,3,2,1,0,0"), KILN_OK);
    perf_config_write(&f->solution.config, text);
    assert_string_equal(text, "128,128,64,2,2,3,2,1,0,0");
    assert_int_equal(solve_on(f, "gfx90a", "128,128,32,2,2,2,2,4"), KILN_OK);
    perf_config_write(&f->solution.config, text);
    assert_string_equal(text, "128,128,32,2,2,2,2,4");
}

TEST_F(solver, an_unknown_value_is_refused_by_its_axis_name)
{
    assert_int_equal(solve_on(f, "sm_90", "128,100,64,2,2,3,1,1,0,0"), KILN_INVALID);
    assert_says(f->err.text, "tile_n");
    assert_int_equal(solve_on(f, "gfx90a", "128,128,32,3,2,2,1,1"), KILN_INVALID);
    assert_says(f->err.text, "waves_m");
}

TEST_F(solver, a_config_that_needs_too_much_is_refused)
{
    assert_int_equal(solve_on(f, "sm_90", "256,256,64,4,4,6,1,1,0,0"),
                     KILN_INVALID); /* too much shared memory */
    assert_int_equal(solve_on(f, "sm_90", "256,128,64,1,1,2,1,1,0,0"),
                     KILN_INVALID); /* too many registers */
    assert_int_equal(solve_on(f, "sm_90", "64,32,32,1,1,2,1,1,0,0"), KILN_INVALID); /* one warp */
    /* Only backward weights may use L1. */
    assert_int_equal(solve_on(f, "sm_90", "128,128,64,2,2,3,1,1,1,0"), KILN_INVALID);
    assert_int_equal(solve_on(f, "gfx90a", "256,256,64,4,2,2,1,1"),
                     KILN_INVALID); /* too much LDS */
    assert_int_equal(solve_on(f, "gfx90a", "256,128,32,2,1,1,1,1"),
                     KILN_INVALID); /* too many registers */
    assert_int_equal(solve_on(f, "gfx1100", "128,128,32,2,2,1,1,1"),
                     KILN_INVALID); /* too many registers */
}

/* A work group that transposes a tile on the way to shared memory needs at least as many items as
 * the tile has columns. */
TEST_F(solver, amd_takes_no_wide_turned_tiles_with_few_items)
{
    assert_int_equal(solve_on(f, "gfx90a", "64,128,32,1,1,1,1,1"), KILN_OK);
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_int_equal(solve_on(f, "gfx90a", "64,128,32,1,1,1,1,1"), KILN_INVALID);
    assert_int_equal(solve_on(f, "gfx90a", "64,128,32,1,2,1,1,1"), KILN_OK);
}

TEST_F(solver, channels_last_in_eights_needs_no_workspace)
{
    assert_int_equal(solve_on(f, "sm_90", "128,128,64,2,2,3,1,1,0,0"), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 1);
    assert_int_equal(f->solution.workspace_size, 0);
    const struct solution_kernel *k = &f->solution.kernels[0];
    assert_string_equal(k->name, "conv_implicit_gemm_mma_forward");
    assert_int_equal(k->arguments[0].kind, ARGUMENT_X);
    assert_int_equal(k->arguments[1].kind, ARGUMENT_W);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_Y);
    assert_int_equal(k->arguments[3].value, 8);
    assert_int_equal(k->group[0], 128);
    assert_int_equal(k->grid[0], 8 * 28 * 28 / 128 * (256 / 128));
    assert_int_equal(k->shared_bytes, 3 * (128 + 128) * 64 * 2);
}

TEST_F(solver, other_layouts_are_packed_and_unpacked_in_the_workspace)
{
    f->problem.x_layout = f->problem.w_layout = f->problem.y_layout = LAYOUT_CHANNELS_FIRST;
    assert_int_equal(solve_on(f, "gfx942", ""), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 4);
    static const char *const names[] = { "conv_reorder_pack", "conv_reorder_pack",
                                         "conv_implicit_gemm_mma_forward", "conv_reorder_unpack" };
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(f->solution.kernels[i].name, names[i]);
    uint64_t x = 8ull * 56 * 56 * 128 * 2, w = 256ull * 9 * 128 * 2;
    assert_true(f->solution.workspace_size >= x + w);
    assert_int_equal(f->solution.kernels[2].arguments[1].value, x);
}

/* Packing takes 64 pixels of 64 channels at a time, which are 128 bytes of each plane and of
 * each packed pixel. */
TEST_F(solver, packing_of_planes_fills_sectors_of_both_tensors)
{
    f->problem.x_layout = f->problem.w_layout = f->problem.y_layout = LAYOUT_CHANNELS_FIRST;
    f->problem.n = 3;
    f->problem.in = (struct extent){ 1, 7, 7 };
    f->problem.filter = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_int_equal(solve_on(f, "gfx942", ""), KILN_OK);
    assert_string_equal(f->solution.kernels[0].name, "conv_reorder_pack");
    assert_int_equal(option(f, "conv_reorder_pack", "TOGETHER"), 8);
    assert_int_equal(option(f, "conv_reorder_pack", "PIXELS"), 64);
    assert_int_equal(option(f, "conv_reorder_pack", "VECTOR"), 1);
    /* The 147 pixels make three runs of up to 64. The 128 channels make 16 chunks of 8. */
    assert_int_equal(f->solution.kernels[0].grid[0], 3 * 16 / 8);
    assert_int_equal(option(f, "conv_reorder_unpack", "TOGETHER"), 8);
    f->problem.c = 24; /* three chunks of 8 channels */
    assert_int_equal(solve_on(f, "gfx942", ""), KILN_OK);
    assert_int_equal(option(f, "conv_reorder_pack", "TOGETHER"), 4);
    assert_int_equal(f->solution.kernels[0].grid[0], 2);
    f->problem.in.w = 2; /* a plane has 28 bytes */
    assert_int_equal(solve_on(f, "gfx942", ""), KILN_OK);
    assert_int_equal(option(f, "conv_reorder_pack", "VECTOR"), 2);
    f->problem.in.w = 8; /* a plane has 112 bytes */
    assert_int_equal(solve_on(f, "gfx942", ""), KILN_OK);
    assert_int_equal(option(f, "conv_reorder_pack", "VECTOR"), 8);
    f->problem.stride = (struct extent){ 1, 2, 2 }; /* 4 of 7 rows are read */
    assert_int_equal(solve_on(f, "gfx942", ""), KILN_OK);
    assert_int_equal(option(f, "conv_reorder_pack", "VECTOR"), 1);
    assert_int_equal(option(f, "conv_implicit_gemm_mma_forward", "IN_H"), 4);
    assert_int_equal(option(f, "conv_implicit_gemm_mma_forward", "STRIDE_H"), 1);
}

/* ConvNeXt's first layer: a patch of 4 x 4 pixels with 3 channels is like one pixel with 48
 * channels. Without patches, the pixels of each of the 16 residues modulo the stride would be
 * padded to 8 channels. */
TEST_F(solver, backward_data_of_patches_is_one_pointwise_product)
{
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.c = 3;
    f->problem.filter = f->problem.stride = (struct extent){ 1, 4, 4 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    assert_int_equal(solve_on(f, "sm_90a", ""), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 2);
    assert_int_equal(option(f, f->solution.kernels[0].name, "C"), 48);
    assert_int_equal(option(f, f->solution.kernels[0].name, "FILTER_W"), 1);
    assert_int_equal(option(f, f->solution.kernels[0].name, "STRIDE_W"), 1);
    assert_string_equal(f->solution.kernels[1].name, "conv_reorder_unpack");
    assert_int_equal(f->solution.workspace_size, 8ull * 14 * 14 * 48 * 2);
    f->problem.stride.w = 3; /* patches that overlap */
    assert_int_equal(solve_on(f, "sm_90a", ""), KILN_OK);
    assert_int_equal(option(f, f->solution.kernels[1].name, "STRIDE_W"), 3);
}

/* The first layer of ViT-B/16. Its 16x16 filter is too large for igemm_path_mma, unless packing
 * turns it into a 1x1 filter (see "Patches" in conv_packing.h). */
TEST_F(solver, patches_of_any_size_go_to_the_matrix_cores)
{
    f->problem.c = 3;
    f->problem.filter = f->problem.stride = (struct extent){ 1, 16, 16 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    set_target(f, "sm_90a");
    f->target.has_tensor_maps = true;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_in_range(f->solution.map_count, 2, 3); /* as many maps as bulk copies have */
    }
}

TEST_F(solver, a_sliced_sum_goes_through_the_workspace)
{
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_int_equal(solve_on(f, "sm_90", "128,128,64,2,2,3,4,1,1,0"), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 2);
    assert_int_equal(f->solution.workspace_size, 4ull * 256 * 9 * 128 * sizeof(float));
    assert_int_equal(option(f, "conv_implicit_gemm_mma_backward_weights", "PARTIAL"), 1);
    const struct solution_kernel *sum = kernel_named(f, "conv_reorder_unpack");
    assert_non_null(sum);
    assert_int_equal(sum->arguments[1].kind, ARGUMENT_W);
    assert_int_equal(sum->arguments[3].value, 4);
}

TEST_F(solver, another_batch_size_compiles_nothing)
{
    static struct solution first;
    for (unsigned i = 0; i < 2; i++) {
        const char *target = i ? "gfx90a" : "sm_90";
        const char *config = i ? "128,128,32,2,2,2,1,1" : "128,128,64,2,2,3,1,1,0,0";
        f->problem.n = 8;
        assert_int_equal(solve_on(f, target, config), KILN_OK);
        first = f->solution;
        f->problem.n = 7;
        assert_int_equal(solve_on(f, target, config), KILN_OK);
        assert_string_equal(first.programs[0].options, f->solution.programs[0].options);
    }
}

TEST_F(solver, each_amd_target_gets_its_instructions)
{
    static const struct {
        const char *target;
        long cores, wave;
        bool pairs;
    } expected[] = { { "gfx908", 2, 64, true },
                     { "gfx90a", 2, 64, false },
                     { "gfx942", 2, 64, false },
                     { "gfx1100", 3, 32, false },
                     { "gfx1201", 4, 32, false } };
    static const char name[] = "conv_implicit_gemm_mma_forward";
    f->problem.type = TYPE_BFLOAT16;
    for (size_t i = 0; i < COUNT(expected); i++) {
        assert_int_equal(solve_on(f, expected[i].target, "128,64,32,4,2,2,1,1"), KILN_OK);
        assert_int_equal(option(f, name, "CORES"), expected[i].cores);
        assert_int_equal(option(f, name, "PAIRS"), expected[i].pairs);
        assert_int_equal(option(f, name, "TILES_BYTES"), 2 * (128 + 64) * 32 * 2);
        assert_int_equal(kernel_named(f, name)->group[0], 8 * expected[i].wave);
        /* shared memory is a static array */
        assert_int_equal(kernel_named(f, name)->shared_bytes, 0);
    }
}
