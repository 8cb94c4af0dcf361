/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_bulk.h"

#include "engine/solver/conv_implicit_gemm_paths.h"
#include "tests/unit/engine/solver/solver_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BULK "128,128,64,8,1,4,1,1,0,2"
#define PERSISTENT "128,128,64,8,1,4,1,1,0,3"
#define BULK_TF32 "128,128,32,8,1,4,1,1,0,2"
#define KERNEL "conv_implicit_gemm_bulk"
#define SHARED_MAX (227 * 1024)
#define ASYNC_COPIES 1
#define BULK_COPIES 2
#define PERSISTENT_GROUPS 3
#define REGISTERS 65536
/* number of multiprocessors that the solver assumes if the target does not contain it */
#define PROCESSORS 132
enum { TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N, STAGES, SPLIT, BAND, CACHE, WIDE };

SET_UP(make_fixture)
{
    /* ResNet-50's 3x3 layer with stride 2, in fp16, batch 8 */
    const struct problem problem = {
        .type = TYPE_FLOAT16, .n = 8, .c = 128, .k = 256, .in = { 1, 56, 56 }, .stride = { 1, 2, 2 }
    };
    fill_fixture(f, "ConvImplicitGemm", "sm_90a", &problem);
    put_channels_last(f);
    f->target.has_tensor_maps = true;
}

FIXTURE(solver, make_fixture, NULL);

static const struct solution_kernel *product_of_solution(const struct fixture *f)
{
    for (uint32_t i = 0; i < f->solution.kernel_count; i++)
        if (strstr(f->solution.kernels[i].name, KERNEL))
            return &f->solution.kernels[i];
    fail_msg("nothing copies in bulk");
    return NULL;
}

/* Returns the value of -DKILN_<name>= in the program that multiplies. */
static uint32_t option(const struct fixture *f, const char *name)
{
    const char *options = f->solution.programs[product_of_solution(f)->program].options;
    char text[64];
    snprintf(text, sizeof(text), "-DKILN_%s=", name);
    const char *at = strstr(options, text);
    if (!at)
        fail_msg("no %s in %s", text, options);
    return (uint32_t)strtoul(at + strlen(text), NULL, 10);
}

static uint16_t wide_of(const struct fixture *f) { return f->solution.config.values[WIDE]; }

static uint32_t number_argument(const struct fixture *f, unsigned from_the_end)
{
    const struct solution_kernel *k = product_of_solution(f);
    const struct solution_argument *a = &k->arguments[k->argument_count - 1 - from_the_end];
    assert_int_equal(a->kind, ARGUMENT_U32);
    return (uint32_t)a->value;
}

/* Checks that all persistent work groups except the last compute the same number of tiles, and
 * that all groups are resident at the same time. */
static void expect_persistent_groups(const struct fixture *f, uint32_t processors)
{
    uint32_t tiles = number_argument(f, 1), groups = number_argument(f, 0);
    uint32_t together = processors * option(f, "BLOCKS");
    assert_int_equal(product_of_solution(f)->grid[0], groups);
    assert_in_range(groups, 1, tiles < together ? tiles : together);
    uint32_t rounds = (tiles + groups - 1) / groups;
    assert_int_equal(rounds, (tiles + together - 1) / together);
    assert_true(rounds == 1 || (groups - 1) * rounds < tiles);
}

static void expect_solution(struct fixture *f);

TEST_F(solver, the_bulk_solver_needs_sm_90a_and_a_client_that_encodes_tensor_maps)
{
    static const char *const others[] = { "sm_80", "sm_90", "sm_100", "sm_120" };
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        f->target.has_tensor_maps = false;
        assert_int_equal(solve(f, BULK), KILN_INVALID);
        f->target.has_tensor_maps = true;
        assert_int_equal(solve(f, BULK), KILN_OK);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        must(target_parse(bytes_of_text(others[i]), &f->target, &f->err), f->err);
        f->target.has_tensor_maps = true;
        assert_int_equal(solve(f, BULK), KILN_INVALID);
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_int_equal(f->solution.map_count, 0);
    }
}

TEST_F(solver, where_it_can_be_it_is_chosen_unasked)
{
    f->problem.n = 64;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        for (uint32_t type = TYPE_FLOAT16; type <= TYPE_BFLOAT16; type++) {
            f->problem.type = type;
            f->target.has_tensor_maps = true;
            assert_int_equal(solve(f, ""), KILN_OK);
            assert_in_range(wide_of(f), BULK_COPIES, PERSISTENT_GROUPS);
            assert_true(f->solution.map_count > 0);
            f->target.has_tensor_maps = false;
            assert_int_equal(solve(f, ""), KILN_OK);
            assert_int_equal(wide_of(f), ASYNC_COPIES);
            assert_int_equal(f->solution.map_count, 0);
        }
    }
}

TEST_F(solver, a_problem_that_no_tensor_map_can_describe_is_refused)
{
    const struct problem good = f->problem;
#define WITH(direction_, field, ...)                    \
    do {                                                \
        f->problem = good;                              \
        f->problem.direction = (direction_);            \
        f->problem.field = __VA_ARGS__;                 \
        assert_int_equal(solve(f, ""), KILN_OK);        \
        assert_int_equal(solve(f, BULK), KILN_INVALID); \
    } while (0)
    for (uint32_t direction = 0; direction < 3; direction++) {
        /* the box's corner would be beyond 127, which a tensor map cannot express */
        WITH(direction, pad, (struct extent){ 0, 300, 1 });
        WITH(direction, c, 3);
    }
    f->problem = good;
    WITH(DIRECTION_FORWARD, stride, (struct extent){ 1, 9, 1 });
    WITH(DIRECTION_BACKWARD_WEIGHTS, stride, (struct extent){ 1, 1, 9 });
    WITH(DIRECTION_BACKWARD_DATA, stride, (struct extent){ 1, 3, 3 }); /* nine residues */
    /* 96 is no multiple of 64, so a copy of 64 channels would mix those of two filter taps. */
    WITH(DIRECTION_BACKWARD_WEIGHTS, c, 96);
    f->problem = good;
    f->problem.in.w = 299;
    f->problem.pad.w = 128;
    f->problem.dilation.w = 127;
    assert_int_equal(solve(f, BULK), KILN_OK);
    f->problem.dilation.w = 128; /* the last tap is 256 pixels away */
    assert_int_equal(solve(f, BULK), KILN_INVALID);
    f->problem = good;
    /* A group has 32 channels, but a copy takes 64, so it would include the next group's. */
    f->problem.groups = 4;
    assert_int_equal(solve(f, BULK), KILN_INVALID);
#undef WITH
}

TEST_F(solver, a_3d_problem_with_far_taps_is_refused_by_the_bulk_solver)
{
    f->problem.spatial_dims = 3;
    f->problem.in.d = 40;
    f->problem.stride.d = 2;
    f->problem.filter.d = 3;
    f->problem.pad.d = 16;
    for (uint32_t direction = 0; direction < 3; direction += 2) {
        f->problem.direction = direction;
        f->problem.dilation.d = 15;
        f->problem.pad.d = 16;
        assert_int_equal(solve(f, BULK), KILN_OK);
        f->problem.pad.d = 17; /* the box's corner would be beyond -16 */
        assert_int_equal(solve(f, BULK), KILN_INVALID);
        f->problem.pad.d = 16;
        f->problem.dilation.d = 16; /* the last tap is 32 pixels away */
        assert_int_equal(solve(f, BULK), KILN_INVALID);
    }
}

TEST_F(solver, tiles_of_192_are_for_bulk_copies_alone)
{
    assert_int_equal(solve(f, "192,128,64,12,1,5,1,1,0,2"), KILN_OK);
    assert_int_equal(product_of_solution(f)->group[0], 13 * 32);
    assert_int_equal(solve(f, "192,128,64,12,1,5,1,1,0,1"), KILN_INVALID);
    assert_int_equal(solve(f, "128,192,64,8,1,5,1,1,0,2"), KILN_OK);
    assert_int_equal(solve(f, "128,192,64,8,1,5,1,1,0,1"), KILN_INVALID);
    /* the two teams would have 96 columns each */
    assert_int_equal(solve(f, "128,192,64,8,2,5,1,1,0,2"), KILN_INVALID);
    /* rows of 64 bytes, where bulk copies need 128 */
    assert_int_equal(solve(f, "128,128,32,8,1,4,1,1,0,2"), KILN_INVALID);
    /* tiles of 240 KiB are too large */
    assert_int_equal(solve(f, "256,128,64,8,1,5,1,1,0,2"), KILN_INVALID);
    assert_int_equal(solve(f, "256,256,64,8,2,3,1,1,0,2"), KILN_INVALID); /* too many registers */
}

TEST_F(solver, products_in_tf32_are_fed_by_bulk_copies)
{
    f->problem.type = TYPE_FLOAT32;
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_int_equal(f->solution.map_count, 0);
    f->problem.allow_tf32 = 1;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        f->target.has_tensor_maps = true;
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_in_range(wide_of(f), BULK_COPIES, PERSISTENT_GROUPS);
        assert_int_equal(solve(f, BULK_TF32), KILN_OK);
        /* rows of 256 bytes, where bulk copies need 128 */
        assert_int_equal(solve(f, BULK), KILN_INVALID);
        /* rows of 64 bytes, where bulk copies need 128 */
        assert_int_equal(solve(f, "128,128,16,8,1,4,1,1,0,2"), KILN_INVALID);
        /* only bulk copies round to TF32 */
        assert_int_equal(solve(f, "128,128,32,8,1,4,1,1,0,1"), KILN_INVALID);
        f->target.has_tensor_maps = false;
        assert_int_equal(solve(f, BULK_TF32), KILN_INVALID);
        assert_int_equal(solve(f, ""), KILN_OK);
    }
}

/* In TF32, wgmma needs operands whose rows run along the sum. In backward weights, the rows of
 * both operands run across it, so one is transposed. */
TEST_F(solver, backward_weights_in_tf32_transpose_an_operand)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_int_equal(solve(f, "128,128,32,8,1,3,4,1,0,2"), KILN_OK);
    expect_solution(f);
    assert_int_equal(product_of_solution(f)->shared_bytes, (3 * 256 + 2 * 128) * 128 + 3 * 16);
    assert_int_equal(f->solution.maps[0].type, TENSOR_MAP_TF32);
    assert_int_equal(f->solution.maps[1].type, TENSOR_MAP_TF32);
    assert_int_equal(solve(f, "128,256,32,8,1,3,4,1,0,2"), KILN_INVALID); /* too many registers */
    f->problem.in = (struct extent){ 1, 4, 4 }; /* the sum is over 32 pixels, which are one tile */
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_int_equal(f->solution.map_count, 0);
}

/* U-Net's innermost layer. Tiles of 64 channels would not be faster: copying 128 pixels of x
 * takes as long as multiplying them with 128 channels. */
TEST_F(solver, long_sums_of_few_pixels_are_not_multiplied_in_narrow_tiles)
{
    f->problem.n = 1;
    f->problem.c = 512;
    f->problem.k = 1024;
    f->problem.in = (struct extent){ 1, 32, 32 };
    f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    for (uint32_t type = TYPE_FLOAT32; type <= TYPE_FLOAT16; type++) {
        f->problem.type = type;
        f->problem.allow_tf32 = type == TYPE_FLOAT32;
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_in_range(f->solution.config.values[TILE_N], 128, 256);
    }
}

/* With few products, packing channels-first tensors takes longer than it saves. */
TEST_F(solver, channels_first_are_packed_for_tf32_if_that_pays)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    f->problem.x_layout = f->problem.y_layout = LAYOUT_CHANNELS_FIRST;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
        assert_int_equal(solve(f, BULK_TF32), KILN_OK);
        assert_non_null(kernel_named(f, "conv_reorder_pack"));
    }
    must(target_parse(bytes_of_text("sm_90"), &f->target, &f->err), f->err); /* no wgmma */
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    must(target_parse(bytes_of_text("sm_90a"), &f->target, &f->err), f->err);
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
    f->problem.groups = 2;
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    f->problem.groups = 1;
    f->problem.direction = DIRECTION_FORWARD;
    f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    f->problem.c = 64;
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
}

/* RegNetY's last layer with strides. On an H200, it takes 759 us on the vector path, but 339 us
 * with packed tensors. */
TEST_F(solver, groups_with_channels_first_are_packed_for_tf32_if_that_pays)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    f->problem.x_layout = f->problem.y_layout = LAYOUT_CHANNELS_FIRST;
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.n = 64;
    f->problem.c = f->problem.k = 3024;
    f->problem.groups = 27;
    f->problem.in = (struct extent){ 1, 14, 14 };
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_mma);
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_ptr_equal(igemm_path_for(&f->problem, &f->target), &igemm_path_vector);
}

TEST_F(solver, forward_reads_pixels_under_the_first_tap_and_the_weights)
{
    assert_int_equal(solve(f, BULK), KILN_OK);
    const struct solution_kernel *k = product_of_solution(f);
    assert_string_equal(k->name, KERNEL "_forward");
    assert_int_equal(k->argument_count, 5);
    assert_int_equal(k->arguments[0].kind, ARGUMENT_TENSOR_MAP);
    assert_int_equal(k->arguments[1].kind, ARGUMENT_TENSOR_MAP);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_Y);
    assert_int_equal(k->group[0], 9 * 32);
    assert_int_equal(k->shared_bytes, 4 * ((128 + 128) * 64 * 2 + 16));
    assert_int_equal(f->solution.map_count, 2);
    const struct tensor_map x = { .operand = ARGUMENT_X,
                                  .type = TYPE_FLOAT16,
                                  .mode = TENSOR_MAP_IM2COL,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 4,
                                  .dims = { 128, 56, 56, 8 },
                                  .strides = { 2, 256, 14336, 802816 },
                                  .steps = { 1, 2, 2, 1 },
                                  .lower = { -1, -1 },
                                  /* With these corners, the first tap reads the pixels -1, 1,
                                   * ..., 53 of the pixels 0 to 55. */
                                  .upper = { -2, -2 },
                                  .channels = 64,
                                  .pixels = 128 };
    const struct tensor_map w = { .operand = ARGUMENT_W,
                                  .type = TYPE_FLOAT16,
                                  .mode = TENSOR_MAP_TILED,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 3,
                                  .dims = { 128, 9, 256 },
                                  .strides = { 2, 256, 2304 },
                                  .steps = { 1, 1, 1 },
                                  .box = { 64, 1, 128 } };
    assert_memory_equal(&f->solution.maps[0], &x, sizeof(x));
    assert_memory_equal(&f->solution.maps[1], &w, sizeof(w));
}

/* wgmma ignores the bits that TF32 lacks instead of rounding them, so the copies must round. */
TEST_F(solver, maps_of_operands_in_tf32_round_them)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    assert_int_equal(solve(f, BULK_TF32), KILN_OK);
    const struct solution_kernel *k = product_of_solution(f);
    assert_string_equal(k->name, KERNEL "_forward");
    assert_int_equal(k->shared_bytes, 4 * ((128 + 128) * 32 * 4 + 16));
    const struct tensor_map x = { .operand = ARGUMENT_X,
                                  .type = TENSOR_MAP_TF32,
                                  .mode = TENSOR_MAP_IM2COL,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 4,
                                  .dims = { 128, 56, 56, 8 },
                                  .strides = { 4, 512, 28672, 1605632 },
                                  .steps = { 1, 2, 2, 1 },
                                  .lower = { -1, -1 },
                                  .upper = { -2, -2 },
                                  .channels = 32,
                                  .pixels = 128 };
    const struct tensor_map w = { .operand = ARGUMENT_W,
                                  .type = TENSOR_MAP_TF32,
                                  .mode = TENSOR_MAP_TILED,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 3,
                                  .dims = { 128, 9, 256 },
                                  .strides = { 4, 512, 4608 },
                                  .steps = { 1, 1, 1 },
                                  .box = { 32, 1, 128 } };
    assert_memory_equal(&f->solution.maps[0], &x, sizeof(x));
    assert_memory_equal(&f->solution.maps[1], &w, sizeof(w));
}

/* The map of the result must not be of type TF32, which would round the sums. */
TEST_F(solver, persistent_groups_in_tf32_write_all_bits_of_their_sums)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    assert_int_equal(solve(f, "128,128,32,8,1,4,1,1,0,3"), KILN_OK);
    const struct tensor_map y = { .operand = ARGUMENT_Y,
                                  .type = TYPE_FLOAT32,
                                  .mode = TENSOR_MAP_TILED,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 2,
                                  .dims = { 256, 8 * 28 * 28 },
                                  .strides = { 4, 1024 },
                                  .steps = { 1, 1 },
                                  .box = { 32, 64 } };
    assert_int_equal(f->solution.map_count, 3);
    assert_memory_equal(&f->solution.maps[2], &y, sizeof(y));
}

/* The sum is over k, so the weights are packed: a row of k for each tap and c. */
TEST_F(solver, backward_data_in_tf32_reads_turned_weights)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_int_equal(solve(f, BULK_TF32), KILN_OK);
    assert_string_equal(f->solution.kernels[0].name, "conv_reorder_pack");
    assert_int_equal(f->solution.workspace_size, 256 * 128 * 9 * 4);
    const struct tensor_map w = { .operand = ARGUMENT_WORKSPACE,
                                  .type = TENSOR_MAP_TF32,
                                  .mode = TENSOR_MAP_TILED,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 3,
                                  .dims = { 256, 9, 128 },
                                  .strides = { 4, 1024, 9216 },
                                  .steps = { 1, 1, 1 },
                                  .box = { 32, 1, 128 } };
    assert_int_equal(f->solution.maps[0].operand, ARGUMENT_Y);
    assert_memory_equal(&f->solution.maps[1], &w, sizeof(w));
}

TEST_F(solver, maps_of_3d_problems_have_a_depth)
{
    f->problem.spatial_dims = 3;
    f->problem.in.d = 10;
    f->problem.filter.d = 5;
    f->problem.pad.d = 1;
    f->problem.stride.d = 3;
    assert_int_equal(solve(f, BULK), KILN_OK);
    const struct tensor_map x = { .operand = ARGUMENT_X,
                                  .type = TYPE_FLOAT16,
                                  .mode = TENSOR_MAP_IM2COL,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 5,
                                  .dims = { 128, 56, 56, 10, 8 },
                                  .strides = { 2, 256, 14336, 802816, 8028160 },
                                  .steps = { 1, 2, 2, 3, 1 },
                                  .lower = { -1, -1, -1 },
                                  /* the first tap reads the planes -1, 2 and 5 of the planes 0
                                   * to 9 */
                                  .upper = { -2, -2, -4 },
                                  .channels = 64,
                                  .pixels = 128 };
    assert_memory_equal(&f->solution.maps[0], &x, sizeof(x));
    assert_int_equal(f->solution.maps[1].dims[1], 45);
}

TEST_F(solver, without_taps_pixels_are_numbered_through)
{
    f->problem.in.d = 3;
    f->problem.spatial_dims = 3;
    f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    f->problem.c = 256;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_int_equal(solve(f, BULK), KILN_OK);
        assert_int_equal(f->solution.map_count, 2);
        assert_int_equal(f->solution.maps[0].mode, TENSOR_MAP_TILED);
        assert_int_equal(f->solution.maps[0].rank, 2);
        assert_int_equal(f->solution.maps[0].dims[1], 8 * 3 * 56 * 56);
    }
}

TEST_F(solver, groups_that_last_write_by_a_map_of_the_result)
{
    assert_int_equal(solve(f, PERSISTENT), KILN_OK);
    const struct solution_kernel *k = product_of_solution(f);
    assert_string_equal(k->name, KERNEL "_forward");
    assert_int_equal(k->argument_count, 7); /* three maps, then batch, slice, tiles and groups */
    assert_int_equal(k->arguments[2].kind, ARGUMENT_TENSOR_MAP);
    assert_int_equal(f->solution.map_count, 3);
    const struct tensor_map y = { .operand = ARGUMENT_Y,
                                  .type = TYPE_FLOAT16,
                                  .mode = TENSOR_MAP_TILED,
                                  .swizzle = TENSOR_MAP_SWIZZLE_128,
                                  .rank = 2,
                                  .dims = { 256, 8 * 28 * 28 },
                                  .strides = { 2, 512 },
                                  .steps = { 1, 1 },
                                  .box = { 64, 64 } };
    assert_memory_equal(&f->solution.maps[2], &y, sizeof(y));
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(f->solution.map_count, 2);

    f->problem.direction = DIRECTION_BACKWARD_DATA;
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_int_equal(solve(f, PERSISTENT), KILN_OK);
    const struct tensor_map *x = &f->solution.maps[2];
    assert_int_equal(x->operand, ARGUMENT_X);
    assert_int_equal(x->dims[0], 128);
    assert_int_equal(x->dims[1], 8 * 56 * 56);
}

TEST_F(solver, results_not_in_rows_of_pixels_have_no_persistent_groups)
{
    assert_int_equal(solve(f, "128,128,64,8,1,4,2,1,0,3"), KILN_INVALID); /* two slices */
    assert_int_equal(solve(f, "128,128,64,8,1,2,1,1,0,3"), KILN_OK);
    /* without persistent groups, 3 stages are needed */
    assert_int_equal(solve(f, "128,128,64,8,1,2,1,1,0,2"), KILN_INVALID);
    assert_int_equal(solve(f, "64,64,64,4,2,4,1,1,0,2"), KILN_OK);
    /* the teams would have 32 columns */
    assert_int_equal(solve(f, "64,64,64,4,2,4,1,1,0,3"), KILN_INVALID);
    f->target.has_tensor_maps = false;
    assert_int_equal(solve(f, PERSISTENT), KILN_INVALID);
    f->target.has_tensor_maps = true;
    f->problem.groups = 2;
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(solve(f, PERSISTENT), KILN_INVALID);
    f->problem.groups = 1;
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(solve(f, PERSISTENT), KILN_INVALID);
    /* with strides, the result is not in rows of pixels */
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(solve(f, PERSISTENT), KILN_INVALID);
}

static void expect_groups_on(struct fixture *f, uint32_t processors)
{
    f->target.processors = processors;
    assert_int_equal(solve(f, PERSISTENT), KILN_OK);
    expect_persistent_groups(f, processors ? processors : PROCESSORS);
}

TEST_F(solver, lasting_groups_fill_the_device)
{
    static const uint32_t devices[] = { 0, 1, 78, 114, 132, 1000 };
    static struct solution_program program;
    f->problem.n = 64;
    assert_int_equal(solve(f, PERSISTENT), KILN_OK);
    program = f->solution.programs[0];
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        expect_groups_on(f, devices[i]);
        assert_string_equal(f->solution.programs[0].options, program.options);
    }
    f->target.processors = UINT32_MAX;
    assert_int_equal(solve(f, PERSISTENT), KILN_OK);
    assert_int_equal(number_argument(f, 0), number_argument(f, 1));
}

TEST_F(solver, backward_data_with_strides_has_a_map_for_each_remainder)
{
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(f->solution.map_count, 5);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(f->solution.maps[i].operand, ARGUMENT_Y);
    f->problem.stride = (struct extent){ 1, 1, 2 };
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(f->solution.map_count, 5);
    f->problem.stride = (struct extent){ 1, 1, 1 };
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(f->solution.map_count, 2);
    f->problem.stride = (struct extent){ 1, 2, 3 };
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(f->solution.map_count, 9);
    f->problem.spatial_dims = 3;
    f->problem.in.d = 8;
    f->problem.filter.d = 3;
    f->problem.stride = (struct extent){ 2, 2, 2 };
    assert_int_equal(solve(f, BULK), KILN_OK);
    assert_int_equal(f->solution.map_count, 9);
    assert_int_equal(f->solution.maps[8].operand, ARGUMENT_W);
}

struct axis {
    uint32_t in, filter, pad, stride, dilation;
    uint32_t residue;
};

/* Returns how many pixels of x along an axis have the residue |a.residue| (of index plus pad,
 * modulo the stride), or 0 if no tap reaches them. */
static uint32_t pixels_met(struct axis a)
{
    uint32_t count = 0, taps = 0;
    for (uint32_t tap = 0; tap < a.filter; tap++)
        taps += tap * a.dilation % a.stride == a.residue;
    for (uint32_t at = 0; at < a.in && taps > 0; at++)
        count += (at + a.pad) % a.stride == a.residue;
    return count;
}

static uint64_t bytes_of_operand(const struct fixture *f, uint8_t operand)
{
    const struct problem *p = &f->problem;
    struct extent out = problem_output(p);
    uint64_t element = data_type_size((enum data_type)p->type);
    switch (operand) {
    case ARGUMENT_X: return element * p->n * p->c * p->in.d * p->in.h * p->in.w;
    case ARGUMENT_W:
        return element * p->k * (p->c / p->groups) * p->filter.d * p->filter.h * p->filter.w;
    case ARGUMENT_Y: return element * p->n * p->k * out.d * out.h * out.w;
    default: return f->solution.workspace_size;
    }
}

static uint32_t residues_of(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_DATA ? p->stride.w * p->stride.h * p->stride.d : 2;
}

/* Checks that the copies cover, along each axis, as many pixels as y has; in backward data, as
 * many pixels of x as have the same residue modulo the stride. */
static void expect_pixels(const struct fixture *f, const struct tensor_map *map, uint32_t index)
{
    const struct problem *p = &f->problem;
    struct extent out = problem_output(p);
    uint32_t wanted[3] = { out.w, out.h, out.d };
    if (p->direction == DIRECTION_BACKWARD_DATA) {
        wanted[0] = pixels_met((struct axis){ p->in.w, p->filter.w, p->pad.w, p->stride.w,
                                              p->dilation.w, index % p->stride.w });
        wanted[1] = pixels_met((struct axis){ p->in.h, p->filter.h, p->pad.h, p->stride.h,
                                              p->dilation.h, index / p->stride.w % p->stride.h });
        wanted[2] = pixels_met((struct axis){ p->in.d, p->filter.d, p->pad.d, p->stride.d,
                                              p->dilation.d, index / (p->stride.w * p->stride.h) });
    }
    if (wanted[0] == 0 || wanted[1] == 0 || wanted[2] == 0 || index >= residues_of(p))
        return;
    for (unsigned axis = 0; axis < map->rank - 2; axis++) {
        int64_t span = (int64_t)map->dims[1 + axis] + map->upper[axis] - map->lower[axis] - 1;
        assert_int_equal(span / map->steps[1 + axis] + 1, wanted[axis]);
    }
}

static bool has_option(const struct fixture *f, const char *name)
{
    char text[64];
    snprintf(text, sizeof(text), "-DKILN_%s=", name);
    return strstr(f->solution.programs[product_of_solution(f)->program].options, text);
}

/* Returns whether the right operand is transposed into two more tiles of shared memory: in TF32,
 * for backward weights with channels last. */
static bool turns_right(const struct fixture *f)
{
    return f->problem.type == TYPE_FLOAT32 && f->problem.direction == DIRECTION_BACKWARD_WEIGHTS &&
           !has_option(f, "PLANES");
}

/* Checks the size of shared memory: the tiles of the operands, then two barriers for each stage.
 * The result's tile replaces those of the operands, except in persistent work groups, where it
 * has its own space. Split sums and most fp32 sums have no such tile, because they are stored
 * from registers. */
static void expect_shared_memory(const struct fixture *f)
{
    const uint16_t *v = f->solution.config.values;
    bool is_persistent = v[WIDE] == PERSISTENT_GROUPS;
    uint32_t stages = v[STAGES], slice = number_argument(f, is_persistent ? 2 : 0);
    if (!is_persistent && stages > slice)
        stages = slice;
    uint32_t operands = stages * (v[TILE_M] + v[TILE_N]) * 128, signals = stages * 16;
    if (turns_right(f))
        operands += 2 * v[TILE_N] * 128;
    bool is_wide = f->problem.type == TYPE_FLOAT32;
    bool is_direct =
        v[SPLIT] > 1 || (is_wide && (!is_persistent || has_option(f, "RESULT_PLANES")));
    uint32_t result = is_direct ? 0 : v[TILE_M] * v[TILE_N] * (is_wide ? 4 : 2);
    uint32_t tiles = is_persistent ? operands + result : operands > result ? operands : result;
    uint32_t bytes = product_of_solution(f)->shared_bytes;
    assert_int_equal(option(f, "STAGES"), stages);
    assert_int_equal(option(f, "LASTING"), is_persistent);
    assert_int_equal(bytes, tiles + signals);
    assert_true(bytes <= SHARED_MAX);
}

/* Checks that ptxas has enough registers for each thread with the promised number of resident
 * work groups. ptxas needs 26 registers in addition to the sums (NVRTC 13.0). A left operand in
 * registers takes 16 of them for each 64 rows of a team. */
static void expect_registers(const struct fixture *f)
{
    const uint16_t *v = f->solution.config.values;
    uint32_t sums = v[TILE_M] / v[WARPS_M] * (v[TILE_N] / v[WARPS_N]) / 32;
    uint32_t threads = product_of_solution(f)->group[0];
    uint32_t registers = REGISTERS / (threads * option(f, "BLOCKS")) / 8 * 8;
    uint32_t held = turns_right(f) ? 16 * v[TILE_M] / v[WARPS_M] * 4 / 64 : 0;
    assert_true(registers >= sums + held + 26);
}

static void expect_solution(struct fixture *f)
{
    const struct solution_kernel *k = product_of_solution(f);
    const uint16_t *v = f->solution.config.values;
    assert_int_equal(k->group[0], 32 * (v[WARPS_M] * v[WARPS_N] + 1));
    expect_shared_memory(f);
    expect_registers(f);
    if (v[WIDE] == PERSISTENT_GROUPS)
        expect_persistent_groups(f, PROCESSORS);
    assert_in_range(f->solution.map_count, 2, LIMIT_PLAN_MAPS);
    for (uint32_t i = 0; i < f->solution.map_count; i++) {
        const struct tensor_map *map = &f->solution.maps[i];
        assert_int_equal(k->arguments[i].kind, ARGUMENT_TENSOR_MAP);
        assert_int_equal(k->arguments[i].value, i);
        if (tensor_map_check(map, &f->err))
            fail_msg("map %u: %s", i, f->err.text);
        assert_true(tensor_map_reach(map) <= bytes_of_operand(f, map->operand));
        if (map->mode == TENSOR_MAP_IM2COL)
            expect_pixels(f, map, i);
    }
}

static unsigned check_valid_points(struct fixture *f, uint16_t wide)
{
    struct perf_space space = igemm_path_mma.space(&f->problem, &f->target);
    uint32_t size = perf_space_size(&space);
    unsigned valid = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config config;
        char text[PERF_CONFIG_TEXT_MAX];
        perf_space_at(&space, i, &config);
        if (config.values[WIDE] != wide ||
            !igemm_path_mma.config_is_valid(&f->problem, &f->target, &config))
            continue;
        perf_config_write(&config, text);
        assert_int_equal(solve(f, text), KILN_OK);
        expect_solution(f);
        valid++;
    }
    return valid;
}

TEST_F(solver, every_valid_point_fits_and_its_maps_do)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(check_valid_points(f, BULK_COPIES), 50, 20000);
        unsigned lasting = check_valid_points(f, PERSISTENT_GROUPS);
        assert_in_range(lasting, direction == DIRECTION_FORWARD ? 20 : 0, 2000);
    }
}

TEST_F(solver, every_valid_point_in_tf32_fits_and_its_maps_do)
{
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_in_range(check_valid_points(f, BULK_COPIES), 50, 20000);
        unsigned lasting = check_valid_points(f, PERSISTENT_GROUPS);
        assert_in_range(lasting, direction == DIRECTION_FORWARD ? 20 : 0, 2000);
    }
}

/* A sum of one tile needs so little shared memory that only registers limit the number of
 * resident work groups. */
TEST_F(solver, short_sums_have_as_many_groups_as_registers_allow)
{
    f->problem.c = f->problem.k = 64;
    f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    for (uint32_t direction = 0; direction < 2; direction++) {
        f->problem.direction = direction;
        assert_in_range(check_valid_points(f, BULK_COPIES), 10, 2000);
        assert_in_range(check_valid_points(f, PERSISTENT_GROUPS), 10, 2000);
    }
    assert_int_equal(solve(f, "128,64,64,8,1,3,1,1,0,2"), KILN_OK);
    assert_int_equal(option(f, "STAGES"), 1);
    /* Four resident work groups would leave a thread only 56 registers. */
    assert_int_equal(option(f, "BLOCKS"), 3);
}

static uint32_t draw(uint64_t *seed, uint32_t least, uint32_t most)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return least + (uint32_t)(*seed >> 33) % (most - least + 1);
}

static struct extent draw_extent(uint64_t *seed, bool is_volume, uint32_t least, uint32_t most)
{
    uint32_t plane = least > 0;
    return (struct extent){ is_volume ? draw(seed, least, most) : plane, draw(seed, least, most),
                            draw(seed, least, most) };
}

static void draw_problem(uint64_t *seed, struct problem *p)
{
    bool is_volume = draw(seed, 0, 1);
    p->spatial_dims = is_volume ? 3 : 2;
    p->direction = draw(seed, 0, 2);
    p->x_layout = p->w_layout = p->y_layout =
        draw(seed, 0, 3) ? LAYOUT_CHANNELS_LAST : LAYOUT_CHANNELS_FIRST;
    p->n = draw(seed, 1, 4);
    p->groups = draw(seed, 1, 2);
    p->c = p->groups * (draw(seed, 0, 1) ? 64 : 8) * draw(seed, 1, 3);
    p->k = p->groups * (draw(seed, 0, 1) ? 64 : 8) * draw(seed, 1, 3);
    p->in = draw_extent(seed, is_volume, 1, 20);
    p->filter = draw_extent(seed, is_volume, 1, 5);
    p->pad = draw_extent(seed, is_volume, 0, 3);
    p->stride = draw_extent(seed, is_volume, 1, 3);
    p->dilation = draw_extent(seed, is_volume, 1, 3);
}

static unsigned check_odd_problems(struct fixture *f, const char *const *configs, size_t count)
{
    uint64_t seed = 42;
    unsigned in_bulk = 0;
    for (unsigned i = 0; i < 3000; i++) {
        draw_problem(&seed, &f->problem);
        if (problem_check(&f->problem, &f->err))
            continue;
        for (size_t j = 0; j < count; j++) {
            if (solve(f, configs[j]))
                continue;
            expect_solution(f);
            in_bulk++;
        }
        assert_int_equal(solve(f, ""), KILN_OK);
    }
    return in_bulk;
}

TEST_F(solver, odd_problems_have_right_maps_or_another_way)
{
    static const char *const configs[] = { "64,64,64,4,1,3,1,1,0,2", "128,128,64,4,1,4,1,1,0,2",
                                           "64,64,64,4,1,4,2,1,0,2", "64,64,64,4,1,2,1,1,0,3" };
    assert_in_range(check_odd_problems(f, configs, 4), 300, 9000);
}

TEST_F(solver, odd_problems_in_tf32_have_right_maps_or_another_way)
{
    static const char *const configs[] = { "64,64,32,4,1,3,1,1,0,2", "128,128,32,4,1,4,1,1,0,2",
                                           "64,64,32,4,1,4,2,1,0,2", "64,64,32,4,1,2,1,1,0,3" };
    f->problem.type = TYPE_FLOAT32;
    f->problem.allow_tf32 = 1;
    assert_in_range(check_odd_problems(f, configs, 4), 400, 9000);
}
