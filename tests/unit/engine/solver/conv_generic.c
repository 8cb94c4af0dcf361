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
    f->problem.allow_tf32 = f->problem.type == TYPE_FLOAT32;
    f->problem.x_layout = f->problem.w_layout = f->problem.y_layout = way / 9;
}

/* Returns the program of the product, not those that pack its operands, or add up or unpack its
 * result. */
static const struct solution_program *product_of(struct fixture *f)
{
    for (uint32_t i = 0; i < f->solution.kernel_count; i++) {
        const struct solution_program *p = &f->solution.programs[f->solution.kernels[i].program];
        if (strcmp(p->name, "conv_generic.cl") == 0 || strcmp(p->name, "conv_generic_mma.cl") == 0)
            return p;
    }
    fail_msg("the solution has no product");
    return NULL;
}

static void expect_no_sizes(struct fixture *f, uint32_t way, const char *config)
{
    struct problem first = f->problem;
    size_t count;
    const struct problem *problems = other_problems(&count);
    take_problem(f, &first, way);
    assert_int_equal(solve(f, config), KILN_OK);
    const struct solution_program program = *product_of(f);
    for (size_t i = 0; i < count; i++) {
        take_problem(f, &problems[i], way);
        assert_int_equal(solve(f, config), KILN_OK);
        const struct solution_program *other = product_of(f);
        assert_string_equal(other->name, program.name);
        assert_string_equal(other->options, program.options);
    }
    f->problem = first;
}

TEST_F(solver, a_program_has_no_sizes)
{
    for (uint32_t direction = 0; direction < 3; direction++) {
        expect_no_sizes(f, direction, "0,1");
        expect_no_sizes(f, 3 + direction, "3,2");  /* fp16 with channels first */
        expect_no_sizes(f, 12 + direction, "3,2"); /* fp16 with channels last */
    }
}

TEST_F(solver, all_sizes_are_arguments)
{
    static const uint32_t wanted[] = { 8, 64, 128, 1, 1, 28, 28, 1, 28, 28, 1,
                                       3, 3,  0,   1, 1, 1,  1,  1, 1,  1,  1 };
    assert_int_equal(solve(f, "0,1"), KILN_OK);
    const struct solution_kernel *k = &f->solution.kernels[0];
    assert_int_equal(k->arguments[0].kind, ARGUMENT_W);
    assert_int_equal(k->arguments[1].kind, ARGUMENT_X);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_Y);
    assert_int_equal(k->argument_count, 5 + sizeof(wanted) / sizeof(wanted[0]) + 4);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        assert_int_equal(k->arguments[5 + i].value, wanted[i]);
}

static int compare_programs(const void *a, const void *b) { return strcmp(a, b); }

#define PROGRAM_MAX 400
#define PROGRAMS_MAX 2048

static void describe(const struct solution_program *program, char text[PROGRAM_MAX])
{
    int length = snprintf(text, PROGRAM_MAX, "%s %s", program->name, program->options);
    assert_in_range(length, 1, PROGRAM_MAX - 1);
}

/* Adds the programs of the samples, and returns their number, with duplicates. */
static size_t list_samples(struct fixture *f, char (*programs)[PROGRAM_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < conv_generic_samples(&f->target); i++) {
        struct generic_sample sample = conv_generic_sample(i);
        f->problem = sample.problem;
        assert_int_equal(solve(f, sample.config), KILN_OK);
        assert_in_range(count + f->solution.program_count, 1, PROGRAMS_MAX);
        for (uint32_t p = 0; p < f->solution.program_count; p++)
            describe(&f->solution.programs[p], programs[count++]);
    }
    qsort(programs, count, PROGRAM_MAX, compare_programs);
    return count;
}

static void expect_samples_need_every_program(struct fixture *f)
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

TEST_F(solver, the_samples_need_every_program)
{
    static const char *const targets[] = { "sm_75",  "sm_80",  "sm_90a", "gfx906",
                                           "gfx908", "gfx90a", "gfx1100" };
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        set_target(f, targets[i]);
        expect_samples_need_every_program(f);
    }
}

static bool takes_matrix_cores(struct fixture *f)
{
    must(solve(f, ""), f->err);
    return strcmp(product_of(f)->name, "conv_generic_mma.cl") == 0;
}

TEST_F(solver, matrix_cores_are_chosen_where_they_can_be_used)
{
    static const char *const targets[] = { "sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100" };
    for (size_t i = 0; i < 6 * sizeof(targets) / sizeof(targets[0]); i++) {
        set_target(f, targets[i / 6]);
        take_problem(f, &f->problem, 3 + i % 3 + i / 3 % 2 * 9); /* fp16 in both layouts */
        assert_true(takes_matrix_cores(f));
        f->problem.type = TYPE_BFLOAT16;
        assert_true(takes_matrix_cores(f));
        f->problem.c = 61;
        assert_true(takes_matrix_cores(f));
        f->problem.c = 64;
    }
}

TEST_F(solver, matrix_cores_are_not_chosen_where_they_cannot_be_used)
{
    static const char *const targets[] = { "gfx906", "sm_75" };
    for (size_t i = 0; i < 2; i++) {
        set_target(f, targets[i]);
        take_problem(f, &f->problem, 3);
        assert_false(takes_matrix_cores(f));
        put_channels_last(f);
        assert_false(takes_matrix_cores(f));
    }
}

/* Packing would take longer than the product. */
TEST_F(solver, a_small_product_of_large_tensors_is_not_packed)
{
    take_problem(f, &f->problem, 3);
    f->problem.filter = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    f->problem.in = (struct extent){ 1, 512, 512 };
    f->problem.k = 1;
    assert_false(takes_matrix_cores(f));
    f->problem.k = 256;
    assert_true(takes_matrix_cores(f));
}

TEST_F(solver, tensors_that_are_too_large_are_not_packed)
{
    take_problem(f, &f->problem, 3);
    f->problem.in = (struct extent){ 1, 224, 224 };
    f->problem.k = 64;
    f->problem.n = 256;
    assert_true(takes_matrix_cores(f));
    f->problem.n = 384; /* packed, x needs more than 2 GiB of workspace */
    assert_false(takes_matrix_cores(f));
    assert_int_equal(f->solution.workspace_size, 0);
}

TEST_F(solver, a_result_with_too_many_packed_elements_is_computed_on_vector_units)
{
    take_problem(f, &f->problem, 4); /* backward data in fp16, with channels first */
    f->problem.c = f->problem.k = 1; /* packed, a pixel has eight channels */
    f->problem.in = (struct extent){ 1, 1024, 1024 };
    f->problem.stride = (struct extent){ 1, 4, 4 };
    f->problem.n = 200;
    assert_int_equal(solve(f, "3,1"), KILN_OK);
    f->problem.n = 300;
    assert_int_equal(solve(f, "3,1"), KILN_INVALID);
    assert_false(takes_matrix_cores(f));
}

static void expect_kernels(struct fixture *f, const char *config, const char *const *names)
{
    must(solve(f, config), f->err);
    uint32_t count = 0;
    for (; names[count]; count++)
        assert_string_equal(f->solution.kernels[count].name, names[count]);
    assert_int_equal(f->solution.kernel_count, count);
}

TEST_F(solver, only_tensors_that_differ_are_packed)
{
    static const char *const forward = "conv_generic_mma_forward", *const pack =
                                                                       "conv_generic_pack";
    const char *const both[] = { pack, pack, forward, NULL };
    const char *const one[] = { pack, forward, NULL };
    const char *const none[] = { forward, NULL };
    take_problem(f, &f->problem, 3);
    expect_kernels(f, "3,1", both);
    f->problem.filter = (struct extent){ 1, 1, 1 };
    f->problem.pad = (struct extent){ 0, 0, 0 };
    expect_kernels(f, "3,1", one); /* weights of one tap are the same in both layouts */
    assert_int_equal(f->solution.workspace_size, 8 * 28 * 28 * 64 * 2);
    f->problem.k = 127;
    expect_kernels(f, "3,1", both);
    f->problem.k = 128;
    put_channels_last(f);
    expect_kernels(f, "3,1", none);
    assert_int_equal(f->solution.workspace_size, 0);
}

TEST_F(solver, split_sums_of_packed_tensors_are_unpacked)
{
    static const char *const names[] = {
        "conv_generic_pack",     "conv_generic_pack",   "conv_generic_mma_backward_weights",
        "conv_split_reduce_sum", "conv_generic_unpack", NULL
    };
    const struct solution_kernel *k = f->solution.kernels;
    const uint64_t x = 8 * 28 * 28 * 64 * 2, y = 2 * x, part = 128 * 64 * 9 * 4;
    take_problem(f, &f->problem, 5); /* backward weights in fp16, with channels first */
    expect_kernels(f, "3,4", names);
    assert_int_equal(k[2].arguments[0].value, 0); /* y */
    assert_int_equal(k[2].arguments[1].value, y);
    assert_int_equal(k[2].arguments[2].value, x + y);
    assert_int_equal(k[3].arguments[1].value, x + y + 4 * part);
    assert_int_equal(k[4].arguments[0].value, x + y + 4 * part);
    assert_int_equal(f->solution.workspace_size, x + y + 5 * part);
}

TEST_F(solver, tiles_on_matrix_cores_fit_the_channels)
{
    set_target(f, "sm_90a");
    take_problem(f, &f->problem, 12); /* forward in fp16, with channels last */
    f->problem.n = 64;
    must(solve(f, ""), f->err);
    assert_int_equal(f->solution.config.values[0], 3); /* 128 x 128 */
    f->problem.k = 64;
    must(solve(f, ""), f->err);
    assert_int_equal(f->solution.config.values[0], 4); /* 128 x 64 */
}

TEST_F(solver, fp32_uses_matrix_cores_only_in_tf32)
{
    put_channels_last(f);
    assert_false(takes_matrix_cores(f));
    f->problem.allow_tf32 = 1;
    assert_true(takes_matrix_cores(f));
    set_target(f, "gfx942");
    assert_false(takes_matrix_cores(f));
}

TEST_F(solver, a_split_sum_on_matrix_cores_covers_the_whole_reduction)
{
    take_problem(f, &f->problem, 14); /* backward weights in fp16, with channels last */
    must(solve(f, "5,16"), f->err);
    const struct solution_kernel *k = &f->solution.kernels[0];
    uint32_t slice = (uint32_t)k->arguments[3].value; /* tiles of 32 pixels */
    assert_int_equal(k->arguments[0].kind, ARGUMENT_Y);
    assert_int_equal(k->arguments[1].kind, ARGUMENT_X);
    assert_int_equal(k->arguments[2].kind, ARGUMENT_WORKSPACE);
    assert_int_equal(k->arguments[4].value, f->problem.n);
    assert_true(slice * 16 * 32 >= 8 * 28 * 28);
    assert_int_equal(k->grid[0], 2 * 9 * 16); /* tiles of 64 x 64 */
    assert_int_equal(f->solution.workspace_size, 16 * 64 * 128 * 9 * sizeof(float));
    assert_string_equal(f->solution.kernels[1].name, "conv_split_reduce_sum");
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
    static const uint32_t widths[] = { 1,     2,       3,       5,        7,       13,
                                       28,    31,      1000,    1023,     1025,    46341,
                                       65535, 8388607, 8388609, 16777213, 16777216 };
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
        /* the largest number with the largest remainder */
        uint32_t worst = (1u << 31) / widths[i] * widths[i] - 1;
        assert_int_equal(quotient(k, worst), worst / widths[i]);
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
