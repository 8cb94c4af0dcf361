/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_generic.h"

#include "tests/unit/engine/solver/solver_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct solver *const generic = &solver_conv_generic;

SOLVER_FIXTURE("ConvGeneric", "sm_90", .direction = DIRECTION_FORWARD, .spatial_dims = 2, .n = 8,
               .c = 64, .k = 128, .in = { 1, 28, 28 });

static const struct problem *other_problems(size_t *ret_count)
{
    static const struct problem problems[] = {
        { .spatial_dims = 2,
          .n = 3,
          .c = 6,
          .k = 10,
          .groups = 2,
          .in = { 1, 31, 17 },
          .filter = { 1, 5, 2 },
          .pad = { 0, 2, 1 },
          .stride = { 1, 2, 3 },
          .dilation = { 1, 1, 2 } },
        { .spatial_dims = 3,
          .n = 1,
          .c = 512,
          .k = 512,
          .groups = 1,
          .in = { 4, 7, 7 },
          .filter = { 3, 3, 3 },
          .pad = { 1, 1, 1 },
          .stride = { 1, 1, 1 },
          .dilation = { 1, 1, 1 } },
        { .spatial_dims = 2,
          .n = 256,
          .c = 64,
          .k = 64,
          .groups = 1,
          .in = { 1, 56, 56 },
          .filter = { 1, 1, 1 },
          .stride = { 1, 2, 2 },
          .dilation = { 1, 1, 1 } },
    };
    *ret_count = sizeof(problems) / sizeof(problems[0]);
    return problems;
}

static void take_problem(struct fixture *f, const struct problem *p, uint32_t way)
{
    f->problem = *p;
    f->problem.direction = way % 3;
    f->problem.type = way / 3 % 3;
    f->problem.x_layout = f->problem.w_layout = f->problem.y_layout = way / 9;
}

TEST_F(solver, a_program_has_no_sizes)
{
    struct problem first = f->problem;
    for (uint32_t direction = 0; direction < 3; direction++) {
        take_problem(f, &first, direction);
        assert_int_equal(solve(f, "0,1"), KILN_OK);
        const struct solution_program program = f->solution.programs[0];
        size_t count;
        const struct problem *others = other_problems(&count);
        for (size_t i = 0; i < count; i++) {
            take_problem(f, &others[i], direction);
            assert_int_equal(solve(f, "0,1"), KILN_OK);
            assert_string_equal(f->solution.programs[0].options, program.options);
            assert_string_equal(f->solution.programs[0].name, program.name);
        }
    }
}

TEST_F(solver, all_sizes_are_arguments)
{
    static const uint32_t wanted[] = { 8, 64, 128, 1, 1, 28, 28, 1, 28, 28, 1, 3, 3,
                                       0, 1,  1,   1, 1, 1,  1,  1, 1,  1,  1, 1 };
    assert_int_equal(solve(f, "0,1"), KILN_OK);
    const struct solution_kernel *k = &f->solution.kernels[0];
    assert_int_equal(k->arguments[0].kind, ARGUMENT_W);
    assert_int_equal(k->arguments[1].kind, ARGUMENT_X);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_Y);
    assert_int_equal(k->argument_count, 5 + sizeof(wanted) / sizeof(wanted[0]));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        assert_int_equal(k->arguments[5 + i].value, wanted[i]);
}

static int compare_programs(const void *a, const void *b) { return strcmp(a, b); }

#define PROGRAM_MAX 400
#define PROGRAMS_MAX (2 * GENERIC_SAMPLES)

static void describe(const struct solution_program *program, char text[PROGRAM_MAX])
{
    int length = snprintf(text, PROGRAM_MAX, "%s %s", program->name, program->options);
    assert_in_range(length, 1, PROGRAM_MAX - 1);
}

/* Adds the programs of the samples, and returns their number, with duplicates. */
static size_t list_samples(struct fixture *f, char (*programs)[PROGRAM_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < GENERIC_SAMPLES; i++) {
        struct generic_sample sample = conv_generic_sample(i);
        f->problem = sample.problem;
        assert_int_equal(solve(f, sample.config), KILN_OK);
        for (uint32_t p = 0; p < f->solution.program_count; p++)
            describe(&f->solution.programs[p], programs[count++]);
    }
    qsort(programs, count, PROGRAM_MAX, compare_programs);
    return count;
}

TEST_F(solver, the_samples_need_every_program)
{
    static char programs[PROGRAMS_MAX][PROGRAM_MAX];
    size_t known = list_samples(f, programs), count;
    const struct problem *others = other_problems(&count);
    struct perf_space space = generic->space(&f->problem, &f->target);
    for (uint32_t i = 0; i < count * 18 * perf_space_size(&space); i++) {
        struct perf_config config;
        char text[PERF_CONFIG_TEXT_MAX], wanted[PROGRAM_MAX];
        take_problem(f, &others[i / 18 % count], i % 18);
        perf_space_at(&space, i / (18 * (uint32_t)count), &config);
        perf_config_write(&config, text);
        if (!generic->config_is_valid(&f->problem, &f->target, &config))
            continue;
        assert_int_equal(solve(f, text), KILN_OK);
        for (uint32_t p = 0; p < f->solution.program_count; p++) {
            describe(&f->solution.programs[p], wanted);
            assert_non_null(bsearch(wanted, programs, known, PROGRAM_MAX, compare_programs));
        }
    }
}

/* Divides as the kernel does. */
static uint32_t quotient(const struct solution_kernel *k, uint32_t a)
{
    uint32_t factor = (uint32_t)k->arguments[29].value;
    uint32_t shift = (uint32_t)k->arguments[30].value >> 16 & 255;
    return (uint32_t)((uint64_t)a * factor >> shift);
}

TEST_F(solver, the_kernels_division_is_exact)
{
    static const uint32_t widths[] = { 1,    2,    3,    5,     7,     13,      28,      31,
                                       1000, 1023, 1025, 46341, 65535, 8388607, 16777213 };
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    f->problem.n = f->problem.c = f->problem.k = 1;
    f->problem.filter = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        f->problem.in = (struct extent){ 1, 1, widths[i] };
        must(solve(f, "0,1"), f->err);
        const struct solution_kernel *k = &f->solution.kernels[0];
        for (uint32_t a = 0; a < 1u << 31; a += a < 5000 ? 1 : a / 97) {
            assert_int_equal(quotient(k, a), a / widths[i]);
            uint32_t multiple = a / widths[i] * widths[i];
            assert_int_equal(quotient(k, multiple), multiple / widths[i]);
            if (multiple > 0)
                assert_int_equal(quotient(k, multiple - 1), (multiple - 1) / widths[i]);
        }
        assert_int_equal(quotient(k, INT32_MAX), INT32_MAX / widths[i]);
    }
}

TEST(solver, is_used_only_if_it_is_named)
{
    for (size_t i = 0; solvers[i]; i++)
        assert_ptr_not_equal(solvers[i], generic);
    assert_ptr_equal(solver_find(bytes_of_text("ConvGeneric")), generic);
}

TEST_F(solver, fills_a_large_gpu_or_splits_the_sum)
{
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 1);
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_int_equal(solve(f, ""), KILN_OK);
    assert_int_equal(f->solution.kernel_count, 2);
    assert_string_equal(f->solution.kernels[1].name, "conv_split_reduce_sum");
    assert_true(f->solution.kernels[0].grid[0] >= 132);
}

TEST_F(solver, does_not_apply_to_mixed_layouts_or_long_filters)
{
    f->problem.x_layout = LAYOUT_CHANNELS_LAST;
    assert_false(generic->applies(&f->problem, &f->target));
    put_channels_last(f);
    assert_true(generic->applies(&f->problem, &f->target));
    f->problem.filter = (struct extent){ 1, 28, 3 };
    f->problem.pad = (struct extent){ 0, 14, 1 };
    assert_false(generic->applies(&f->problem, &f->target));
    f->problem.direction = DIRECTION_BACKWARD_WEIGHTS;
    assert_true(generic->applies(&f->problem, &f->target));
    f->problem.type = TYPE_INT8;
    assert_false(generic->applies(&f->problem, &f->target));
}
