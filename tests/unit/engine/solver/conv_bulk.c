/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_implicit_gemm_paths.h"
#include "tests/unit/engine/solver/conv_bulk_fixture.h"

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
        /* a tensor map has only 8 bits for a corner of the box, too few for this padding */
        WITH(direction, pad, (struct extent){ 0, 300, 1 });
        WITH(direction, c, 3);
    }
    f->problem = good;
    WITH(DIRECTION_FORWARD, stride, (struct extent){ 1, 9, 1 });
    WITH(DIRECTION_BACKWARD_WEIGHTS, stride, (struct extent){ 1, 1, 9 });
    WITH(DIRECTION_BACKWARD_DATA, stride, (struct extent){ 1, 3, 3 }); /* nine residues */
    /* 96 is no multiple of 64, so a copy of 64 channels would mix the channels of two filter
     * taps. */
    WITH(DIRECTION_BACKWARD_WEIGHTS, c, 96);
    f->problem = good;
    f->problem.in.w = 299;
    f->problem.pad.w = 128;
    f->problem.dilation.w = 127;
    assert_int_equal(solve(f, BULK), KILN_OK);
    f->problem.dilation.w = 128; /* the last tap is 256 pixels away */
    assert_int_equal(solve(f, BULK), KILN_INVALID);
    f->problem = good;
    /* A group has 32 channels. A copy takes 64, and would include the channels of the next
     * group. */
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
    /* each of the two teams would have 96 columns, which the kernel does not support */
    assert_int_equal(solve(f, "128,192,64,8,2,5,1,1,0,2"), KILN_INVALID);
    /* the tile's rows have 64 bytes, but bulk copies need 128 */
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
        /* the tile's rows have 256 bytes, but bulk copies need 128 */
        assert_int_equal(solve(f, BULK), KILN_INVALID);
        /* the tile's rows have 64 bytes, but bulk copies need 128 */
        assert_int_equal(solve(f, "128,128,16,8,1,4,1,1,0,2"), KILN_INVALID);
        /* only bulk copies round to TF32 */
        assert_int_equal(solve(f, "128,128,32,8,1,4,1,1,0,1"), KILN_INVALID);
        f->target.has_tensor_maps = false;
        assert_int_equal(solve(f, BULK_TF32), KILN_INVALID);
        assert_int_equal(solve(f, ""), KILN_OK);
    }
}

/* U-Net's innermost layer. Copying a tile's 128 pixels of x takes as long as multiplying them with
 * 128 channels. A tile with only 64 channels would therefore not be faster. */
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

/* With few products, packing channels-first tensors takes more time than the tensor cores save. */
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

/* wgmma ignores the bits that TF32 lacks, without rounding. The copies must therefore round. */
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
                                  /* the first tap reads the planes -1, 2 and 5, of which 0 to 9
                                   * exist */
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
    /* three maps, then the arguments batch, slice, tiles and groups */
    assert_int_equal(k->argument_count, 7);
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
    /* with strides, the pixels of a tile are not contiguous in the result */
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
