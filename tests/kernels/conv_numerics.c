/* SPDX-License-Identifier: MIT */
/* Compares every solver with the reference on edge cases of convolutions and of data types. Also
 * runs many random problems with ConvDirectNaive, which serves as the reference of the other
 * solvers. solver_numerics runs random problems with each solver. */
#include "cli/driver/storage.h"
#include "tests/kernels/random_problem.h"
#include "tests/kernels/trial.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAIVE "ConvDirectNaive"

struct fixture {
    struct opencl_device *device;
    struct target target;
    struct trial trial;
    /* number for each direction; one problem takes 0.1 s on one core, mostly to compile */
    unsigned random_problems;
};

static struct problem flat(enum direction direction, enum data_type type)
{
    return (struct problem){ .direction = direction,
                             .spatial_dims = 2,
                             .type = type,
                             .n = 1,
                             .c = 1,
                             .k = 1,
                             .groups = 1,
                             .in = { 1, 1, 1 },
                             .filter = { 1, 1, 1 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
}

static struct trial_options options_of(const char *solver, enum trial_data data, uint64_t seed)
{
    return (
        struct trial_options){ .choice.solver = bytes_of_text(solver), .data = data, .seed = seed };
}

static bool is_right_by(struct fixture *f, const struct problem *problem,
                        const struct trial_options *options, enum opencl_effort effort)
{
    bool right = trial_init(&f->trial, problem, &f->target, options) &&
                 trial_build_and_run(&f->trial, f->device, effort) && trial_is_right(&f->trial);
    trial_done(&f->trial);
    return right;
}

/* Compares every solver that applies with the reference. Compiles without optimisation, because
 * solver_numerics also runs each solver with optimisation. */
static bool is_right(struct fixture *f, const struct problem *problem, enum trial_data data,
                     uint64_t seed)
{
    unsigned wrong = 0;
    for (size_t i = 0; solvers[i]; i++) {
        const struct trial_options options = options_of(solvers[i]->name, data, seed);
        if (solvers[i]->applies(problem, &f->target))
            wrong += !is_right_by(f, problem, &options, OPENCL_QUICK);
    }
    return wrong == 0;
}

static void expect_random_problems_right(struct fixture *f, enum direction direction)
{
    uint64_t state = direction + 1;
    unsigned wrong = 0;
    for (unsigned i = 0; i < f->random_problems; i++) {
        struct problem problem = random_problem(&state, direction);
        const struct trial_options options =
            options_of(NAIVE, i % 4 == 3 ? DATA_GENERAL : DATA_EXACT, state);
        wrong += !is_right_by(f, &problem, &options, OPENCL_OPTIMISED);
    }
    assert_int_equal(wrong, 0);
}

static int forget_trial(void **state);
FIXTURE(trial, forget_trial, NULL);

TEST(trial, forward_of_random_problems_matches_the_reference)
{
    expect_random_problems_right(*state, DIRECTION_FORWARD);
}

TEST(trial, backward_data_of_random_problems_matches_the_reference)
{
    expect_random_problems_right(*state, DIRECTION_BACKWARD_DATA);
}

TEST(trial, backward_weights_of_random_problems_matches_the_reference)
{
    expect_random_problems_right(*state, DIRECTION_BACKWARD_WEIGHTS);
}

TEST(trial, backward_data_clears_inputs_that_no_output_read)
{
    struct problem problem = flat(DIRECTION_BACKWARD_DATA, TYPE_FLOAT32);
    problem.in = (struct extent){ 1, 9, 9 };
    problem.stride = (struct extent){ 1, 3, 4 };
    assert_true(is_right(*state, &problem, DATA_EXACT, 1));
}

/* Kernels store two blocks at once if the width is even, and one row of a block if it is odd. This
 * test has even and odd widths. */
TEST(trial, backward_data_clears_between_pixels_whatever_the_width)
{
    static const uint32_t widths[] = { 8, 10, 9 };
    unsigned wrong = 0;
    for (unsigned i = 0; i < 12; i++) {
        struct problem problem = flat(DIRECTION_BACKWARD_DATA, i % 2 ? TYPE_FLOAT32 : TYPE_FLOAT16);
        problem.c = problem.k = 8;
        problem.in = (struct extent){ 1, 7, widths[i / 2 % 3] };
        problem.stride = (struct extent){ 1, 2, 2 };
        problem.x_layout = problem.w_layout = problem.y_layout =
            i < 6 ? LAYOUT_CHANNELS_FIRST : LAYOUT_CHANNELS_LAST;
        wrong += !is_right(*state, &problem, DATA_EXACT, i);
    }
    assert_int_equal(wrong, 0);
}

/* Returns a problem whose filters do not overlap. Their height and width are 4, 16 or 3 pixels.
 * Problems with 3 pixels are 3-D and have groups. */
static struct problem patches(enum direction direction, unsigned variant)
{
    static const uint32_t sizes[] = { 4, 16, 3 };
    uint32_t size = sizes[variant % 3];
    struct problem problem = flat(direction, (variant + variant / 3) % 3);
    problem.filter = problem.stride = (struct extent){ 1, size, size };
    problem.in = (struct extent){ 1, 2 * size, 3 * size };
    problem.c = 3;
    problem.k = 10;
    problem.n = 2;
    if (size == 3) {
        problem.spatial_dims = 3;
        problem.filter.d = problem.stride.d = 2;
        problem.in.d = 4;
        problem.c = 8;
        problem.groups = 2;
    }
    problem.x_layout = problem.y_layout = variant % 2;
    problem.w_layout = variant / 2 % 2;
    return problem;
}

TEST(trial, patches_larger_than_any_mask_of_taps_are_right)
{
    unsigned wrong = 0;
    for (unsigned direction = 0; direction < 3; direction++) {
        for (unsigned i = 0; i < 6; i++) {
            struct problem problem = patches(direction, i);
            const struct trial_options options = options_of("ConvImplicitGemm", DATA_EXACT, i);
            wrong += !is_right_by(*state, &problem, &options, OPENCL_QUICK);
        }
    }
    assert_int_equal(wrong, 0);
}

TEST(trial, taps_that_only_meet_padding_get_zero_weights)
{
    struct problem problem = flat(DIRECTION_BACKWARD_WEIGHTS, TYPE_FLOAT16);
    problem.filter = (struct extent){ 1, 5, 5 };
    problem.pad = (struct extent){ 0, 7, 7 };
    problem.stride = (struct extent){ 1, 6, 6 };
    problem.c = problem.k = 4;
    assert_true(is_right(*state, &problem, DATA_EXACT, 2));
}

TEST(trial, a_long_sum_stays_within_its_rounding_bound)
{
    struct problem problem = flat(DIRECTION_BACKWARD_WEIGHTS, TYPE_FLOAT32);
    problem.n = 8;
    problem.c = problem.k = 2;
    problem.in = (struct extent){ 1, 112, 112 };
    problem.filter = (struct extent){ 1, 3, 3 };
    problem.pad = (struct extent){ 0, 1, 1 };
    assert_true(is_right(*state, &problem, DATA_GENERAL, 3));
}

TEST_F(trial, one_program_of_the_naive_solver_serves_every_batch_size)
{
    struct trial_options options = options_of(NAIVE, DATA_EXACT, 4);
    struct problem problem = flat(DIRECTION_FORWARD, TYPE_FLOAT32);
    problem.c = problem.k = 8;
    problem.in = (struct extent){ 1, 7, 5 };
    assert_true(trial_init(&f->trial, &problem, &f->target, &options));
    struct opencl_kernels *kernels = opencl_build(f->device, &f->trial.solution, OPENCL_OPTIMISED);
    trial_done(&f->trial);
    assert_non_null(kernels);

    for (uint32_t n = 1; n < 200; n += 33) {
        problem.n = n;
        options.seed = n;
        assert_true(trial_init(&f->trial, &problem, &f->target, &options));
        assert_true(trial_run(&f->trial, f->device, kernels));
        assert_true(trial_is_right(&f->trial));
        trial_done(&f->trial);
    }
    opencl_kernels_destroy(kernels);
}

typedef void solver_check(struct fixture *f, const struct solver *solver, enum data_type type,
                          double scale);

static void expect_of_every_solver(struct fixture *f, const struct problem *problem,
                                   solver_check *check, enum data_type type, double scale)
{
    for (size_t i = 0; solvers[i]; i++)
        if (solvers[i]->applies(problem, &f->target))
            check(f, solvers[i], type, scale);
}

static struct problem image_of_all_patterns(enum data_type type)
{
    struct problem problem = flat(DIRECTION_FORWARD, type);
    problem.in = (struct extent){ 1, 256, 256 };
    return problem;
}

static void expect_all_patterns_unchanged(struct fixture *f, const struct solver *solver,
                                          enum data_type type, double scale)
{
    (void)scale;
    struct problem problem = image_of_all_patterns(type);
    const struct trial_options options = options_of(solver->name, DATA_EXACT, 0);
    assert_true(trial_init(&f->trial, &problem, &f->target, &options));
    uint16_t *x = f->trial.tensors[KILN_TENSOR_X].data, *y = f->trial.tensors[KILN_TENSOR_Y].data;
    storage_store(type, f->trial.tensors[KILN_TENSOR_W].data, 0, 1);
    for (unsigned i = 0; i < 65536; i++)
        x[i] = (uint16_t)i;

    assert_true(trial_build_and_run(&f->trial, f->device, OPENCL_QUICK));

    for (unsigned i = 0; i < 65536; i++) {
        double before = storage_load(type, x, i), after = storage_load(type, y, i);
        assert_true(before == after || (before != before && after != after));
    }
    trial_done(&f->trial);
}

/* Convolves all 16-bit patterns with the weight 1. The result must have the same bits, so loads and
 * stores must be exact inverses. */
TEST(trial, every_half_is_loaded_and_stored_unchanged)
{
    struct problem problem = image_of_all_patterns(TYPE_FLOAT16);
    expect_of_every_solver(*state, &problem, expect_all_patterns_unchanged, TYPE_FLOAT16, 1);
}

TEST(trial, every_bfloat16_is_loaded_and_stored_unchanged)
{
    struct problem problem = image_of_all_patterns(TYPE_BFLOAT16);
    expect_of_every_solver(*state, &problem, expect_all_patterns_unchanged, TYPE_BFLOAT16, 1);
}

static struct problem products(enum data_type type)
{
    struct problem problem = flat(DIRECTION_FORWARD, type);
    problem.k = 64;
    problem.in = (struct extent){ 1, 64, 64 };
    return problem;
}

static void expect_products_rounded_to_even(struct fixture *f, const struct solver *solver,
                                            enum data_type type, double scale)
{
    struct problem problem = products(type);
    const struct trial_options options = options_of(solver->name, DATA_EXACT, 5);
    assert_true(trial_init(&f->trial, &problem, &f->target, &options));
    void *x = f->trial.tensors[KILN_TENSOR_X].data, *w = f->trial.tensors[KILN_TENSOR_W].data;
    for (unsigned i = 0; i < 4096; i++)
        storage_store(type, x, i, (i + 1) * scale);
    for (unsigned k = 0; k < 64; k++)
        storage_store(type, w, k, 1 + k / 64.0);

    assert_true(trial_build_and_run(&f->trial, f->device, OPENCL_QUICK));

    for (unsigned i = 0; i < 64 * 4096; i++) {
        double product = storage_load(type, x, i % 4096) * storage_load(type, w, i / 4096);
        double got = storage_load(type, f->trial.tensors[KILN_TENSOR_Y].data, i);
        assert_true(got == storage_round(type, product));
    }
    trial_done(&f->trial);
}

/* Multiplies numbers whose products must be rounded, overflow, or underflow. */
static void expect_products_rounded(struct fixture *f, enum data_type type, double scale)
{
    struct problem problem = products(type);
    expect_of_every_solver(f, &problem, expect_products_rounded_to_even, type, scale);
}

TEST(trial, half_results_round_ties_to_even_and_overflow_to_infinity)
{
    expect_products_rounded(*state, TYPE_FLOAT16, 1);
    expect_products_rounded(*state, TYPE_FLOAT16, 24);
    expect_products_rounded(*state, TYPE_FLOAT16, 0x1p-24);
}

TEST(trial, bfloat16_results_round_ties_to_even_and_overflow_to_infinity)
{
    expect_products_rounded(*state, TYPE_BFLOAT16, 1);
    expect_products_rounded(*state, TYPE_BFLOAT16, 0x1p116);
}

static struct fixture shared;

static int forget_trial(void **state)
{
    memset(&shared.trial, 0, sizeof(shared.trial));
    *state = &shared;
    return 0;
}

int main(int argc, char **argv)
{
    char why[256] = "";
    shared.target = (struct target){ .family = TARGET_OPENCL, .text = "opencl:test:1" };
    bool selects = argc != 2 || strcmp(argv[1], "all") != 0;
    shared.random_problems = selects ? 8 : 64;
    shared.device = opencl_open(why);
    if (!shared.device) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    int failed = selects ? test_main(argc, argv) : test_run(NULL);
    opencl_close(shared.device);
    return failed;
}
