/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_winograd.h"

#include "tests/unit/engine/solver/solver_fixture.h"
#include "tests/unit/engine/solver/spaces.h"

#include <string.h>

static const char *const targets[] = { "gfx906",  "gfx908",  "gfx90a", "gfx942", "gfx1030",
                                       "gfx1100", "gfx1201", "sm_90",  NULL };

#define WORKSPACE_MAX (2ull << 30)

/* ResNet-50's 3x3 layer at 28x28, batch 64. */
SOLVER_FIXTURE("ConvWinograd", "sm_90", .n = 64, .c = 128, .k = 128, .in = { 1, 28, 28 });

static void set_size(struct fixture *f, uint32_t channels, uint32_t pixels)
{
    f->problem.c = f->problem.k = channels;
    f->problem.in.h = f->problem.in.w = pixels;
}

static bool applies(const struct fixture *f)
{
    return solver_conv_winograd.applies(&f->problem, &f->target);
}

static bool is_favoured(const struct fixture *f)
{
    return solver_conv_winograd.is_favoured(&f->problem, &f->target);
}

static uint32_t count_valid(const struct fixture *f)
{
    return valid_points(&solver_conv_winograd, &f->problem, &f->target);
}

static bool default_is_valid(const struct fixture *f, struct perf_config *ret_config)
{
    return choice_is_valid(&solver_conv_winograd, &f->problem, &f->target, ret_config);
}

TEST_F(solver, is_not_favoured_where_tf32_is_allowed)
{
    assert_true(is_favoured(f));
    f->problem.allow_tf32 = 1;
    assert_false(is_favoured(f));
}

TEST_F(solver, applies_to_3x3_of_stride_and_dilation_1_alone)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        f->problem.type = direction;
        assert_true(applies(f));
    }
    f->problem.stride.w = 2;
    assert_false(applies(f));
    f->problem.stride.w = 1;
    f->problem.dilation.h = 2;
    assert_false(applies(f));
    f->problem.dilation.h = 1;
    f->problem.filter.w = 1;
    assert_false(applies(f));
}

TEST_F(solver, does_not_apply_to_integers_or_volumes)
{
    f->problem.type = TYPE_INT8;
    assert_false(applies(f));
    f->problem.type = TYPE_FLOAT32;
    f->problem.spatial_dims = 3;
    assert_false(applies(f));
}

TEST_F(solver, does_not_apply_where_the_workspace_would_be_too_large)
{
    f->problem.n = 1024; /* the transformed tiles take 1.8 GiB */
    assert_true(applies(f));
    /* backward weights may also split sums, for which it needs more workspace */
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_false(applies(f));
    f->problem.n = 768;
    assert_true(applies(f));
}

TEST_F(solver, is_favoured_for_the_3x3_layers_of_resnet_in_fp32)
{
    for (uint32_t i = 0; i < 12; i++) {
        f->problem.direction = i % 3;
        set_size(f, 64u << i / 3, 56u >> i / 3);
        assert_true(is_favoured(f));
    }
}

TEST_F(solver, is_not_favoured_where_the_transforms_cost_more_than_they_save)
{
    set_size(f, 8, 56);
    assert_false(is_favoured(f));
    set_size(f, 128, 28);
    f->problem.n = 1; /* each of the solver's four launches takes a few microseconds */
    assert_false(is_favoured(f));
}

/* On an H200, this layer takes 634 us with this solver. With ConvImplicitGemm, most of whose
 * tiles are idle, it takes 1170 us, or 2900 us in TF32. */
TEST_F(solver, is_favoured_where_groups_have_few_channels)
{
    set_size(f, 128, 56);
    f->problem.groups = 32;
    assert_true(is_favoured(f));
    f->problem.allow_tf32 = 1;
    assert_true(is_favoured(f));
    f->problem.groups = 1;
    assert_false(is_favoured(f));
}

TEST_F(solver, is_never_favoured_where_matrix_cores_multiply)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        f->problem.type = TYPE_FLOAT16;
        assert_false(is_favoured(f));
        f->problem.type = TYPE_BFLOAT16;
        assert_false(is_favoured(f));
    }
}

TEST_F(solver, the_space_has_hundreds_of_valid_points)
{
    for (uint32_t i = 0; i < 12; i++) {
        f->problem.direction = i % 3;
        set_size(f, 64u << i / 3, 56u >> i / 3);
        assert_in_range(count_valid(f), 300, 20000);
    }
}

TEST_F(solver, the_heuristic_is_valid_for_every_target_type_and_direction)
{
    struct perf_config config;
    for (uint32_t at = 0; at < 18; at++) {
        f->problem.direction = at % 3;
        f->problem.type = at / 3 % 3;
        f->problem.x_layout = at / 9;
        for (const char *const *target = targets; *target; target++) {
            set_target(f, *target);
            assert_true(default_is_valid(f, &config));
        }
    }
}

TEST_F(solver, the_heuristic_is_valid_for_the_smallest_and_odd_problems)
{
    static const struct {
        uint32_t n, c, k, groups, h, w, pad;
    } odd[] = { { 1, 1, 1, 1, 1, 1, 1 },
                { 3, 5, 7, 1, 1, 40, 2 },
                { 2, 12, 6, 3, 9, 11, 0 },
                { 1, 2048, 3, 1, 7, 7, 1 } };
    struct perf_config config;
    for (size_t i = 0; i < 3 * sizeof(odd) / sizeof(odd[0]); i++) {
        size_t at = i / 3;
        f->problem.direction = i % 3;
        f->problem.n = odd[at].n;
        f->problem.c = odd[at].c;
        f->problem.k = odd[at].k;
        f->problem.groups = odd[at].groups;
        f->problem.in = (struct extent){ 1, odd[at].h, odd[at].w };
        f->problem.pad = (struct extent){ 0, odd[at].pad, odd[at].pad };
        must(problem_check(&f->problem, &f->err), f->err);
        assert_true(applies(f));
        assert_true(default_is_valid(f, &config));
        must(solve(f, ""), f->err);
    }
}

/* On an H200, each of these configs takes at most 10 % longer than the fastest of those tried. */
TEST_F(solver, the_heuristic_config_is_one_measured_to_be_fast)
{
    static const char *const measured[] = { "4,64,128,16,8,8,2", "4,128,64,16,8,8,2",
                                            "4,128,64,16,8,8,2", "4,128,64,16,8,8,2" };
    struct perf_config config;
    for (uint32_t i = 0; i < 8; i++) {
        char text[PERF_CONFIG_TEXT_MAX];
        f->problem.direction = i % 2;
        set_size(f, 64u << i / 2, 56u >> i / 2);
        assert_true(default_is_valid(f, &config));
        perf_config_write(&config, text);
        assert_string_equal(text, measured[i / 2]);
    }
}

/* cp.async needs compute capability 8.0. */
TEST_F(solver, products_on_older_gpus_of_nvidias_copy_through_registers)
{
    struct perf_config config;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        set_target(f, "sm_75");
        assert_true(default_is_valid(f, &config));
        must(solve(f, direction < 2 ? "4,64,64,8,8,8,1" : "4,64,64,8,8,8,1,1"), f->err);
        for (uint32_t i = 0; i < f->solution.program_count; i++)
            assert_null(strstr(f->solution.programs[i].options, "-DKILN_ASYNC=1"));
    }
}

TEST_F(solver, small_tiles_are_chosen_for_small_images)
{
    struct perf_config config;
    set_size(f, 512, 2); /* most of a tile of 4x4 pixels would be empty */
    assert_true(default_is_valid(f, &config));
    assert_int_equal(config.values[0], 2);
}

TEST_F(solver, a_config_survives_its_text)
{
    char text[PERF_CONFIG_TEXT_MAX];
    must(solve(f, "2,64,128,8,8,4,3"), f->err);
    perf_config_write(&f->solution.config, text);
    assert_string_equal(text, "2,64,128,8,8,4,3");
    assert_says(f->solution.programs[0].options, "-DKILN_TILE=2 ");
}

TEST_F(solver, a_value_that_is_on_no_axis_is_refused_by_its_name)
{
    assert_int_equal(solve(f, "6,64,128,8,8,8,3"), KILN_INVALID);
    assert_says(f->err.text, "tile");
    assert_says(f->err.text, "ConvWinograd");
    /* Asynchronous copies need two stages or more. */
    assert_int_equal(solve(f, "4,64,128,8,8,8,1"), KILN_INVALID);
    assert_says(f->err.text, "stages");
}

TEST_F(solver, a_config_whose_product_does_not_fit_is_refused)
{
    assert_int_equal(solve(f, "4,256,256,32,8,8,4"), KILN_INVALID); /* too many items */
    assert_says(f->err.text, "fit");
    assert_int_equal(solve(f, "4,16,16,8,8,8,2"), KILN_INVALID); /* only four items */
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.n = 1; /* each of 256 parts needs four steps, but 52 tile slots make only 7 steps */
    assert_int_equal(solve(f, "4,64,64,8,8,8,2,256"), KILN_INVALID);
}

/* The buffers have 52 tile slots for an image's 49 tiles. */
TEST_F(solver, pixels_and_filters_are_transformed_multiplied_and_transformed_back)
{
    must(solve(f, "4,64,128,16,8,8,2"), f->err);
    const struct solution_kernel *k = f->solution.kernels;
    assert_int_equal(f->solution.kernel_count, 4);
    assert_string_equal(k[0].name, "conv_winograd_filter");
    assert_string_equal(k[1].name, "conv_winograd_from");
    assert_string_equal(k[2].name, "conv_implicit_gemm_vector_backward_data");
    assert_string_equal(k[3].name, "conv_winograd_to");

    uint64_t filter = 36 * 128 * 128 * 4, pixels = 64ull * 36 * 128 * 52 * 4;
    assert_int_equal(f->solution.workspace_size, filter + 2 * pixels);
    assert_int_equal(k[0].arguments[0].kind, ARGUMENT_W);
    assert_int_equal(k[0].arguments[1].value, 0);
    assert_int_equal(k[1].arguments[0].kind, ARGUMENT_X);
    assert_int_equal(k[1].arguments[1].value, filter + pixels);
    assert_int_equal(k[1].grid[0], 64 * 52 * 128 / 128);
    assert_int_equal(k[2].arguments[2].value, filter);
    assert_int_equal(k[3].arguments[0].value, filter);
    assert_int_equal(k[3].arguments[1].kind, ARGUMENT_Y);
}

TEST_F(solver, backward_data_reads_y_and_writes_x)
{
    f->problem.direction = DIRECTION_BACKWARD_DATA;
    must(solve(f, "4,64,128,16,8,8,2"), f->err);
    assert_int_equal(f->solution.kernels[1].arguments[0].kind, ARGUMENT_Y);
    assert_int_equal(f->solution.kernels[3].arguments[1].kind, ARGUMENT_X);
}

TEST_F(solver, backward_weights_multiplies_both_tensors_and_splits_the_sum)
{
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    must(solve(f, "4,64,64,16,8,8,2,4"), f->err);
    const struct solution_kernel *k = f->solution.kernels;
    assert_int_equal(f->solution.kernel_count, 5);
    assert_int_equal(k[0].arguments[0].kind, ARGUMENT_X);
    assert_int_equal(k[1].arguments[0].kind, ARGUMENT_Y);
    assert_string_equal(k[2].name, "conv_implicit_gemm_vector_backward_weights");
    assert_string_equal(k[3].name, "conv_split_reduce_sum");
    assert_string_equal(k[4].name, "conv_winograd_weights");
    assert_int_equal(k[4].arguments[1].kind, ARGUMENT_W);
    assert_int_equal(k[4].grid[0], 128 * 128 / 64);

    uint64_t product = 36 * 128 * 128 * 4, pixels = 64ull * 36 * 128 * 52 * 4;
    assert_int_equal(f->solution.workspace_size, product + 2 * pixels + 4 * product);
    assert_int_equal(k[3].arguments[0].value, product + 2 * pixels);
    assert_int_equal(k[3].arguments[1].value, 0);
    assert_int_equal(k[4].arguments[0].value, 0);
}

TEST_F(solver, no_valid_config_takes_more_workspace_than_a_job_spares)
{
    struct perf_space space;
    f->problem.n = 820;
    for (uint32_t direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        space = solver_space(&solver_conv_winograd, &f->problem, &f->target);
        for (uint32_t i = 0; i < perf_space_size(&space); i += 7) {
            struct perf_config config;
            perf_space_at(&space, i, &config);
            if (!solver_conv_winograd.config_is_valid(&f->problem, &f->target, &config))
                continue;
            must(
                solver_conv_winograd.solve(&f->problem, &f->target, &config, &f->solution, &f->err),
                f->err);
            assert_in_range(f->solution.workspace_size, 1, WORKSPACE_MAX);
        }
    }
}

TEST_F(solver, another_batch_compiles_nothing)
{
    static struct solution first;
    for (uint32_t direction = 0; direction < 3; direction++) {
        const char *config = direction < 2 ? "4,64,64,8,8,8,3" : "4,64,64,8,8,8,3,4";
        f->problem.direction = direction;
        f->problem.n = 64;
        must(solve(f, config), f->err);
        first = f->solution;
        f->problem.n = 16;
        must(solve(f, config), f->err);
        for (uint32_t i = 0; i < first.program_count; i++)
            assert_string_equal(first.programs[i].options, f->solution.programs[i].options);
    }
}
