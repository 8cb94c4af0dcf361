/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_bulk.h"

#include "tests/unit/engine/solver/solver_fixture.h"

#include <stdio.h>
#include <string.h>

static const struct problem layer = { .type = TYPE_FLOAT32,
                                      .allow_tf32 = 1,
                                      .spatial_dims = 2,
                                      .n = 8,
                                      .c = 64,
                                      .k = 128,
                                      .groups = 1,
                                      .in = { 1, 28, 28 },
                                      .filter = { 1, 1, 1 },
                                      .stride = { 1, 1, 1 },
                                      .dilation = { 1, 1, 1 } };

SET_UP(make_fixture)
{
    fill_fixture(f, "ConvImplicitGemm", "sm_90a", &layer);
    f->problem = layer;
    f->target.has_tensor_maps = true;
}

FIXTURE(solver, make_fixture, NULL);

static bool has_planes(const struct fixture *f)
{
    for (uint32_t i = 0; i < f->solution.program_count; i++)
        if (strstr(f->solution.programs[i].options, "-DKILN_PLANES=1"))
            return true;
    return false;
}

static uint32_t panel_of(const struct fixture *f)
{
    return 128 / (uint32_t)data_type_size((enum data_type)f->problem.type);
}

static enum kiln_code solve_in_tiles(struct fixture *f, unsigned m, unsigned n, unsigned wide)
{
    char text[64];
    snprintf(text, sizeof(text), "%u,%u,%u,8,1,3,1,1,0,%u", m, n, panel_of(f), wide);
    return solve(f, text);
}

static void use_type(struct fixture *f, enum data_type type)
{
    f->problem.type = type;
    f->problem.allow_tf32 = type == TYPE_FLOAT32;
}

static void expect_map_of_planes(const struct fixture *f, uint32_t index, uint32_t rows)
{
    const struct tensor_map *map = &f->solution.maps[index];
    assert_int_equal(map->rank, 3);
    assert_int_equal(map->dims[0], 28 * 28);
    assert_int_equal(map->strides[1], 28 * 28 * data_type_size((enum data_type)f->problem.type));
    assert_int_equal(map->box[0], panel_of(f));
    assert_int_equal(map->box[1], rows);
}

TEST_F(solver, planes_of_1x1_layers_are_read_where_they_are)
{
    for (uint32_t i = 0; i < 9; i++) {
        use_type(f, i / 3);
        f->problem.direction = i % 3;
        assert_int_equal(solve_in_tiles(f, 128, 64, 2), KILN_OK);
        assert_true(has_planes(f));
        /* In TF32, backward data needs a second kernel, which transposes the weights. */
        bool is_turned = i == DIRECTION_BACKWARD_DATA;
        assert_int_equal(f->solution.kernel_count, is_turned ? 2 : 1);
        /* In backward weights, a box has as many channels as a tile. In the other directions, it
         * has as many channels as a step of the sum. */
        if (i % 3 == DIRECTION_BACKWARD_WEIGHTS) {
            expect_map_of_planes(f, 0, 128);
            expect_map_of_planes(f, 1, 64);
        } else {
            expect_map_of_planes(f, 0, panel_of(f));
        }
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_true(has_planes(f));
    }
}

/* A box of the result has as many channels as one team computes. */
TEST_F(solver, bulk_copies_write_planes_in_16_bits)
{
    for (uint32_t wide = 2; wide <= 3; wide++)
        for (uint32_t direction = 0; direction < 2; direction++) {
            use_type(f, TYPE_FLOAT16);
            f->problem.direction = direction;
            assert_int_equal(solve_in_tiles(f, 128, 64, wide), KILN_OK);
            assert_int_equal(f->solution.map_count, 3);
            expect_map_of_planes(f, 2, 64);
            assert_int_equal(f->solution.maps[2].operand, direction ? ARGUMENT_X : ARGUMENT_Y);
            use_type(f, TYPE_FLOAT32);
            assert_int_equal(solve_in_tiles(f, 128, 64, wide), wide == 2 ? KILN_OK : KILN_INVALID);
        }
    use_type(f, TYPE_FLOAT16);
    f->problem.direction = DIRECTION_FORWARD;
    f->problem.c = 2048;
    f->problem.n = 1;
    assert_int_equal(solve(f, "128,64,64,8,1,3,2,1,0,2"), KILN_OK);
    assert_int_equal(f->solution.map_count, 2); /* the sums of slices need no map */
    assert_int_equal(f->solution.kernel_count, 2);
}

/* The operands of a 3x3 layer are packed. Without split sums and strides, the product kernel
 * writes the result with channels first. Otherwise, a later kernel unpacks the result. */
TEST_F(solver, results_are_written_with_channels_first)
{
    f->problem.filter = (struct extent){ 1, 3, 3 };
    f->problem.pad = (struct extent){ 0, 1, 1 };
    f->problem.c = 2048;
    f->problem.n = 1;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t direction = i % 2, wide = 2 + i / 2 % 2;
        use_type(f, i / 4);
        f->problem.direction = direction;
        assert_int_equal(solve_in_tiles(f, 128, 64, wide), KILN_OK);
        const struct solution_kernel *product = &f->solution.kernels[f->solution.kernel_count - 1];
        assert_non_null(strstr(product->name, "conv_implicit_gemm_bulk"));
        assert_int_equal(product->arguments[2].kind, direction ? ARGUMENT_X : ARGUMENT_Y);
        assert_non_null(strstr(f->solution.programs[product->program].options, "RESULT_PLANES=1"));
    }
    f->problem.direction = DIRECTION_FORWARD;
    assert_int_equal(solve(f, "128,64,64,8,1,3,2,1,0,2"), KILN_OK);
    assert_non_null(kernel_named(f, "conv_reorder_unpack"));
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    /* with strides, the pixels of a tile are not neighbours */
    f->problem.stride = (struct extent){ 1, 2, 2 };
    assert_int_equal(solve_in_tiles(f, 128, 64, 2), KILN_OK);
    assert_non_null(kernel_named(f, "conv_reorder_unpack"));
}

TEST_F(solver, planes_that_bulk_copies_cannot_read_or_that_fill_few_runs_are_packed)
{
    static const struct problem others[] = {
        { .in = { 1, 7, 7 } }, /* a plane's size is no multiple of 16 bytes */
        /* In fp32, copies take runs of 32 pixels. The 36 pixels would leave most of the second run
         * empty. In 16 bits, a plane's size is no multiple of 16 bytes. */
        { .in = { 1, 6, 6 } },
        { .in = { 1, 28, 28 }, .stride = { 1, 2, 2 } },
        { .in = { 1, 28, 28 }, .c = 66 },
        { .in = { 1, 28, 28 }, .x_layout = LAYOUT_CHANNELS_LAST },
    };
    for (uint32_t type = TYPE_FLOAT32; type <= TYPE_BFLOAT16; type++) {
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            f->problem = layer;
            use_type(f, type);
            f->problem.in = others[i].in;
            if (others[i].stride.h)
                f->problem.stride = others[i].stride;
            if (others[i].c)
                f->problem.c = others[i].c;
            f->problem.x_layout = others[i].x_layout;
            assert_false(bulk_reads_planes(&f->problem));
        }
        f->problem = layer;
        use_type(f, type);
        assert_true(bulk_reads_planes(&f->problem));
        /* A plane has 784 bytes in fp32. In 16 bits it has 392 bytes, which is no multiple of
         * 16. */
        f->problem.in = (struct extent){ 1, 14, 14 };
        assert_int_equal(bulk_reads_planes(&f->problem), type == TYPE_FLOAT32);
    }
    f->problem = layer;
    f->problem.allow_tf32 = 0;
    assert_int_equal(solve_in_tiles(f, 128, 64, 2), KILN_INVALID);
}
