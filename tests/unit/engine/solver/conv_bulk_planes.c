/* SPDX-License-Identifier: MIT */
/* ConvImplicitGemm with bulk tensor copies: planes of 1x1 layers in TF32, with channels first. */
#include "engine/solver/conv_bulk.h"

#include "tests/unit/engine/solver/solver_fixture.h"

#include <string.h>

static const struct problem layer = { .type = TYPE_FLOAT32,
                                      .allow_tf32 = 1,
                                      .spatial_dims = 2,
                                      .n = 8,
                                      .c = 64,
                                      .k = 128,
                                      .groups = 1,
                                      .in = { 1, 14, 14 },
                                      .filter = { 1, 1, 1 },
                                      .stride = { 1, 1, 1 },
                                      .dilation = { 1, 1, 1 } };

static int make_fixture(void **state)
{
    struct fixture *f = make_solver_fixture("ConvImplicitGemm", "sm_90a", &layer);
    f->problem = layer;
    f->target.has_tensor_maps = true;
    *state = f;
    return 0;
}

FIXTURE(solver, make_fixture, NULL);

static bool has_planes(const struct fixture *f)
{
    for (uint32_t i = 0; i < f->solution.program_count; i++)
        if (strstr(f->solution.programs[i].options, "-DKILN_PLANES=1"))
            return true;
    return false;
}

TEST_F(solver, planes_of_1x1_layers_in_tf32_are_read_where_they_are)
{
    /* channels in a box: F and B load a step's, W a tile's */
    static const uint32_t rows[][2] = { { 32, 0 }, { 32, 0 }, { 128, 64 } };
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_int_equal(solve(f, "128,64,32,8,1,3,1,1,0,2"), KILN_OK);
        assert_true(has_planes(f));
        /* B also exchanges the weights' rows and channels */
        assert_int_equal(f->solution.kernel_count, direction == DIRECTION_BACKWARD_DATA ? 2 : 1);
        for (uint32_t i = 0; i < 2 && rows[direction][i]; i++) {
            const struct tensor_map *map = &f->solution.maps[i];
            assert_int_equal(map->rank, 3);
            assert_int_equal(map->dims[0], 14 * 14);
            assert_int_equal(map->strides[1], 14 * 14 * sizeof(float));
            assert_int_equal(map->box[0], 32);
            assert_int_equal(map->box[1], rows[direction][i]);
        }
        assert_int_equal(solve(f, ""), KILN_OK);
        assert_true(has_planes(f));
    }
}

TEST_F(solver, planes_that_bulk_copies_cannot_read_or_that_fill_few_runs_are_packed)
{
    static const struct problem others[] = {
        { .in = { 1, 7, 7 } }, /* no multiple of 16 bytes */
        { .in = { 1, 6, 6 } }, /* 36 of 64 pixels of two runs */
        { .in = { 1, 14, 14 }, .stride = { 1, 2, 2 } },
        { .in = { 1, 14, 14 }, .c = 66 },
        { .in = { 1, 14, 14 }, .x_layout = LAYOUT_CHANNELS_LAST },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        f->problem = layer;
        f->problem.in = others[i].in;
        if (others[i].stride.h)
            f->problem.stride = others[i].stride;
        if (others[i].c)
            f->problem.c = others[i].c;
        f->problem.x_layout = others[i].x_layout;
        assert_false(bulk_reads_planes(&f->problem));
    }
    f->problem = layer;
    assert_true(bulk_reads_planes(&f->problem));
    f->problem.allow_tf32 = 0;
    assert_int_equal(solve(f, "128,64,32,8,1,3,1,1,0,2"), KILN_INVALID);
}
