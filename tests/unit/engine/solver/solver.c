/* SPDX-License-Identifier: MIT */
#include "engine/solver/solver.h"

#include "tests/unit/engine/solver/solver_fixture.h"

#include <string.h>

#define NAIVE "ConvDirectNaive"

/* ResNet-50's second convolution, batch 4. */
SOLVER_FIXTURE(NAIVE, "gfx90a", .type = TYPE_FLOAT16, .x_layout = LAYOUT_CHANNELS_LAST, .n = 4,
               .c = 64, .k = 64, .in = { 1, 56, 28 }, .stride = { 1, 2, 1 });

static enum kiln_code solve_by(struct fixture *f, const char *forced)
{
    return solver_solve(&f->problem, &f->target,
                        &(struct solver_choice){ .solver = bytes_of_text(forced) }, &f->solution,
                        &f->err);
}

static bool defines(const struct fixture *f, const char *option)
{
    const char *options = f->solution.programs[0].options;
    const char *at = strstr(options, option);
    char after = at ? at[strlen(option)] : 'x';
    return at && (at == options || at[-1] == ' ') && (after == ' ' || after == '\0');
}

static uint64_t items(const struct fixture *f)
{
    const struct solution_kernel *kernel = &f->solution.kernels[0];
    return (uint64_t)kernel->grid[0] * kernel->group[0];
}

TEST_F(solver, solves_every_direction_on_every_family)
{
    static const char *const kernels[] = { "conv_direct_naive_forward",
                                           "conv_direct_naive_backward_data",
                                           "conv_direct_naive_backward_weights" };
    for (unsigned family = TARGET_AMDGPU; family <= TARGET_OPENCL; family++) {
        f->target.family = family;
        for (unsigned direction = 0; direction < 3; direction++) {
            f->problem.direction = direction;
            assert_int_equal(solve_by(f, NAIVE), KILN_OK);
            assert_string_equal(f->solution.solver->name, "ConvDirectNaive");
            assert_string_equal(f->solution.kernels[0].name, kernels[direction]);
        }
    }
}

TEST_F(solver, states_every_size_but_the_batch_as_an_option)
{
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    static const char *const expected[] = {
        "-DKILN_DIRECTION=0", "-DKILN_TYPE=1",     "-DKILN_C=64",         "-DKILN_K=64",
        "-DKILN_GROUPS=1",    "-DKILN_IN_D=1",     "-DKILN_IN_H=56",      "-DKILN_IN_W=28",
        "-DKILN_OUT_H=28",    "-DKILN_OUT_W=28",   "-DKILN_FILTER_H=3",   "-DKILN_PAD_W=1",
        "-DKILN_STRIDE_H=2",  "-DKILN_STRIDE_W=1", "-DKILN_DILATION_D=1", "-DKILN_X_LAST=1",
        "-DKILN_W_LAST=0",    "-DKILN_Y_LAST=0",
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_true(defines(f, expected[i]));
}

TEST_F(solver, another_batch_size_is_the_same_program_with_a_larger_grid)
{
    char options[sizeof(f->solution.programs[0].options)];
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    uint32_t groups = f->solution.kernels[0].grid[0];
    memcpy(options, f->solution.programs[0].options, sizeof(options));

    f->problem.n *= 16;
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);

    assert_string_equal(f->solution.programs[0].options, options);
    assert_int_equal(f->solution.kernels[0].grid[0], 16 * groups);
    assert_int_equal(f->solution.kernels[0].arguments[3].value, 64);
}

TEST_F(solver, passes_x_w_y_and_the_batch_size)
{
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    const struct solution_kernel *kernel = &f->solution.kernels[0];
    assert_int_equal(kernel->argument_count, 4);
    assert_int_equal(kernel->arguments[0].kind, ARGUMENT_X);
    assert_int_equal(kernel->arguments[1].kind, ARGUMENT_W);
    assert_int_equal(kernel->arguments[2].kind, ARGUMENT_Y);
    assert_int_equal(kernel->arguments[3].kind, ARGUMENT_U32);
    assert_int_equal(kernel->arguments[3].value, 4);
    assert_int_equal(f->solution.workspace_size, 0);
}

TEST_F(solver, the_grid_covers_every_output_and_less_than_a_group_more)
{
    /* An item computes a block of 4 channels. The 28 * 28 * 15 * 3 items do not fill the last work
     * group. */
    f->problem.k = 60;
    f->problem.n = 3;
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    assert_true(defines(f, "-DKILN_BLOCK=4"));
    uint64_t needed = problem_y_elements(&f->problem) / 4;
    assert_true(items(f) >= needed && items(f) < needed + 64);

    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.c = 3;
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    assert_true(defines(f, "-DKILN_BLOCK=3"));
    needed = problem_w_elements(&f->problem) / 3;
    assert_true(items(f) >= needed && items(f) < needed + 64);
}

TEST_F(solver, blocks_never_cross_a_group)
{
    f->problem.groups = 64; /* depthwise: one channel in each group */
    for (unsigned direction = 0; direction < 3; direction++) {
        f->problem.direction = direction;
        assert_int_equal(solve_by(f, NAIVE), KILN_OK);
        assert_true(defines(f, "-DKILN_BLOCK=1"));
    }
}

TEST_F(solver, the_largest_tensor_allowed_still_has_a_grid)
{
    f->problem.c = 1;
    f->problem.k = 1;
    f->problem.filter = f->problem.stride = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    f->problem.n = 127;
    f->problem.in = (struct extent){ 1, 4096, 4096 };
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    assert_int_equal(items(f), 127ull << 24);
}

TEST_F(solver, brings_the_source_and_the_prelude_it_includes)
{
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    const struct solution_program *program = &f->solution.programs[0];
    assert_string_equal(program->name, "conv_direct_naive.cl");
    assert_non_null(memmem(program->source.data, program->source.size, f->solution.kernels[0].name,
                           strlen(f->solution.kernels[0].name)));
    assert_int_equal(program->header_count, 1);
    assert_string_equal(program->header_names[0], "kiln/prelude.h");
    assert_non_null(
        memmem(program->header_texts[0].data, program->header_texts[0].size, "KILN_KERNEL", 11));
}

TEST_F(solver, a_solver_can_be_forced_by_name)
{
    assert_int_equal(solve_by(f, NAIVE), KILN_OK);
    assert_string_equal(f->solution.solver->name, "ConvDirectNaive");
}

TEST_F(solver, the_first_favoured_that_applies_solves_when_none_is_forced)
{
    assert_int_equal(solve_by(f, ""), KILN_OK);
    assert_string_not_equal(f->solution.solver->name, NAIVE);
    const struct solver *chosen = f->solution.solver;
    assert_true(chosen->applies(&f->problem, &f->target));
    assert_true(!chosen->is_favoured || chosen->is_favoured(&f->problem, &f->target));
}

TEST_F(solver, an_unknown_name_is_refused_with_those_there_are)
{
    assert_int_equal(solve_by(f, "ConvMagic"), KILN_NOT_FOUND);
    assert_says(f->err.text, "'ConvMagic'");
    for (size_t i = 0; solvers[i]; i++)
        assert_says(f->err.text, solvers[i]->name);
}

TEST_F(solver, eight_bit_integers_are_refused_by_name)
{
    f->problem.type = TYPE_INT8;
    assert_int_equal(solve_by(f, ""), KILN_UNSUPPORTED);
    assert_says(f->err.text, "int8");
    assert_says(f->err.text, "convint8 -n");
    assert_int_equal(solve_by(f, NAIVE), KILN_UNSUPPORTED);
    assert_says(f->err.text, "ConvDirectNaive cannot");
}

TEST_F(solver, a_meaningless_problem_is_refused_before_any_solver_sees_it)
{
    f->problem.groups = 3;
    assert_int_equal(solve_by(f, ""), KILN_INVALID);
    f->problem.groups = 0;
    assert_int_equal(solve_by(f, NAIVE), KILN_INVALID);
}

/* problem_check refuses coordinates beyond 32 bits before any solver sees them, but may allow them
 * one day. */
TEST_F(solver, does_not_apply_where_coordinates_exceed_32_bits)
{
    const struct solver *naive = solver_find(bytes_of_text(NAIVE));
    assert_true(naive->applies(&f->problem, &f->target));
    f->problem.pad.w = UINT32_MAX;
    assert_false(naive->applies(&f->problem, &f->target));
    f->problem.pad.w = 1;
    f->problem.filter.h = f->problem.dilation.h = UINT32_MAX;
    assert_false(naive->applies(&f->problem, &f->target));
}
