/* SPDX-License-Identifier: MIT */
/* Compiles every solver's programs for old and new NVIDIA GPUs with NVRTC. Compiles 2-D and 3-D
 * random problems to which the solver applies. Also compiles every tile that can use bulk copies,
 * with the highest number of resident work groups. There must be no warnings.
 *
 *     nvrtc_programs [PROBLEMS [SEED]]     PROBLEMS for each solver, direction and target
 *
 * Without arguments, PROBLEMS is 1, each tile is only compiled for one of the tiles' problems, and
 * ConvGeneric is left out. */
#include "engine/solver/conv_generic.h"
#include "engine/solver/conv_implicit_gemm_paths.h"
#include "engine/solver/conv_pointwise.h"
#include "tests/gpu/nvrtc.h"
#include "tests/kernels/random_problem.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* sm_75 has no cp.async, sm_80 has it, and sm_90a also has wgmma. */
static const char *const targets[] = { "sm_75", "sm_80", "sm_90a" };
#define TARGETS (sizeof(targets) / sizeof(targets[0]))
/* number of random problems to try; the solver may apply to none of them */
#define DRAWS_MAX 20000u

static struct nvrtc nvrtc;
static unsigned problems = 1;
static bool every_tile_of_every_problem;
static uint64_t seed = 1;

static bool draw(const struct solver *solver, enum direction direction, uint32_t dims,
                 const struct target *target, struct problem *ret_problem)
{
    bool found = false;
    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        struct problem p = random_problem(&seed, direction);
        if (!solver->applies(&p, target))
            continue;
        *ret_problem = p;
        found = true;
        if (p.spatial_dims == dims)
            break;
    }
    return found;
}

static bool is_clean(const struct nvrtc_program *p)
{
    const char *log = p->log ? p->log : "";
    if (p->object && !strstr(log, "warning"))
        return true;
    fprintf(stderr, "%s for %s with %s:\n%s\n", p->source.name, p->target, p->source.options, log);
    return false;
}

/* Adds a solution's programs to the pool. */
static void add_solution(struct nvrtc_pool *pool, const struct solution *s, const char *target)
{
    for (uint32_t i = 0; i < s->program_count; i++)
        assert_true(nvrtc_pool_add(pool, &s->programs[i], target) != SIZE_MAX);
}

/* Compiles the pool's programs and frees them. Returns the number of those with diagnostics. */
static unsigned compile_pool(struct nvrtc_pool *pool)
{
    unsigned bad = 0;
    for (size_t i = 0; i < pool->count; i++) {
        nvrtc_compile(&nvrtc, pool->programs[i]);
        bad += !is_clean(pool->programs[i]);
    }
    nvrtc_pool_done(pool);
    return bad;
}

static unsigned compile_choice(struct solver_choice choice, const struct problem *problem,
                               const struct target *target)
{
    static struct solution solution;
    struct nvrtc_pool pool = { .count = 0 };
    struct kiln_err err = KILN_ERR_INIT;
    must(solver_solve(problem, target, &choice, &solution, &err), err);
    add_solution(&pool, &solution, target->text);
    return compile_pool(&pool);
}

static unsigned compile(const struct solver *solver, const struct problem *problem,
                        const struct target *target)
{
    return compile_choice((struct solver_choice){ .solver = bytes_of_text(solver->name) }, problem,
                          target);
}

static bool uses_matrix_cores(const struct solution *s)
{
    for (uint32_t i = 0; i < s->program_count; i++)
        if (strcmp(s->programs[i].name, "conv_generic_mma.cl") == 0)
            return true;
    return false;
}

/* Compiles all programs of ConvGeneric for matrix cores, each one once. Few random problems need
 * one. */
static unsigned compile_generic_on_matrix_cores(const struct target *target)
{
    static struct solution solution;
    struct nvrtc_pool pool = { .count = 0 };
    for (uint32_t i = 0; i < conv_generic_samples(target); i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct generic_sample sample = conv_generic_sample(i);
        struct solver_choice choice = { .solver = bytes_of_text(solver_conv_generic.name),
                                        .config = bytes_of_text(sample.config) };
        must(solver_solve(&sample.problem, target, &choice, &solution, &err), err);
        if (uses_matrix_cores(&solution))
            add_solution(&pool, &solution, target->text);
    }
    return compile_pool(&pool);
}

/* Returns the number of programs that do not compile without diagnostics. */
static unsigned compile_random(const struct solver *solver, unsigned number,
                               const struct target *target)
{
    unsigned bad = 0;
    for (unsigned at = 0; at < 3 * problems; at++) {
        struct problem problem;
        /* Each direction alternates between 2-D and 3-D problems. Whether the first problem is 2-D
         * or 3-D depends on the target's number. So each direction has both kinds even if there is
         * only one problem for each target. */
        uint32_t dims = (at % 3 + at / 3 + number) % 2 ? 3 : 2;
        if (draw(solver, at % 3, dims, target, &problem))
            bad += compile(solver, &problem, target);
    }
    return bad;
}

static void every_solver_compiles_without_diagnostics(void **state)
{
    const char *const *text = *state;
    unsigned bad = 0, number = (unsigned)(text - targets);
    struct kiln_err err = KILN_ERR_INIT;
    struct target target;
    must(target_parse(bytes_of_text(*text), &target, &err), err);
    for (size_t i = 0; solvers[i]; i++)
        bad += compile_random(solvers[i], number, &target);
    if (every_tile_of_every_problem)
        bad += compile_random(&solver_conv_generic, number, &target) +
               compile_generic_on_matrix_cores(&target);
    assert_int_equal(bad, 0);
}

/* Sums of sizes in kernels must not overflow for the largest images, whose number of pixels is
 * close to 2^31. NVRTC warns if a constant expression overflows. Without arguments, compiles only
 * ConvPointwise, whose kernels divide all pixels of an image into tiles. */
static void the_largest_images_compile_without_diagnostics(void **state)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct target target;
    unsigned bad = 0, applied = 0;
    (void)state;
    must(target_parse(bytes_of_text("sm_90a"), &target, &err), err);
    for (unsigned direction = 0; direction < (every_tile_of_every_problem ? 3 : 1); direction++) {
        struct problem p = { .direction = direction,
                             .spatial_dims = 2,
                             .n = 1,
                             .c = 1,
                             .k = 1,
                             .groups = 1,
                             .in = { 1, 256, (1u << 23) - 1 },
                             .filter = { 1, 1, 1 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
        for (size_t i = 0; solvers[i]; i++) {
            bool is_wanted = every_tile_of_every_problem || solvers[i] == &solver_conv_pointwise;
            if (!is_wanted || !solvers[i]->applies(&p, &target))
                continue;
            bad += compile(solvers[i], &p, &target);
            applied++;
        }
    }
    assert_int_equal(bad, 0);
    assert_true(applied >= 1);
}

static void products_in_tf32_compile_without_diagnostics(void **state)
{
    const struct solver *solver = solver_find(bytes_of_text("ConvImplicitGemm"));
    unsigned bad = 0;
    (void)state;
    for (unsigned i = 0; i < 2 * 3 * 2; i++) {
        struct kiln_err err = KILN_ERR_INIT;
        struct target target;
        uint32_t layout = i / 3 % 2 ? LAYOUT_CHANNELS_LAST : LAYOUT_CHANNELS_FIRST;
        struct problem p = { .direction = i % 3,
                             .spatial_dims = 2,
                             .allow_tf32 = 1,
                             .x_layout = layout,
                             .w_layout = layout,
                             .y_layout = layout,
                             .n = 8,
                             .c = 96,
                             .k = 64,
                             .groups = 1 + i / 6,
                             .in = { 1, 15, 14 },
                             .filter = { 1, 3, 3 },
                             .pad = { 0, 1, 1 },
                             .stride = { 1, 1 + i / 6, 1 },
                             .dilation = { 1, 1, 1 } };
        must(target_parse(bytes_of_text(i / 6 ? "sm_80" : "sm_90a"), &target, &err), err);
        bad += compile(solver, &p, &target);
    }
    assert_int_equal(bad, 0);
}

enum { TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N, STAGES, SPLIT, BAND, CACHE, WIDE };
#define BULK_COPIES 2
#define TILES_MAX 128u

/* Returns a problem whose reduction has only two tiles. Few stages are then enough, so that only
 * registers limit how many work groups are resident. */
static struct problem short_sum(enum direction direction, uint32_t stride)
{
    return (struct problem){ .direction = direction,
                             .spatial_dims = 2,
                             .type = TYPE_BFLOAT16,
                             .x_layout = LAYOUT_CHANNELS_LAST,
                             .w_layout = LAYOUT_CHANNELS_LAST,
                             .y_layout = LAYOUT_CHANNELS_LAST,
                             .n = 2,
                             .c = direction == DIRECTION_FORWARD ? 128 : 256,
                             .k = direction == DIRECTION_BACKWARD_DATA ? 128 : 256,
                             .groups = 1,
                             .in = { 1, 8 * stride, 8 * stride },
                             .filter = { 1, 1, 1 },
                             .stride = { 1, stride, stride },
                             .dilation = { 1, 1, 1 } };
}

/* Like short_sum, but the reduction has two taps along the depth instead of two tiles of
 * channels. */
static struct problem short_sum_of_volume(enum direction direction, uint32_t stride)
{
    struct problem p = short_sum(direction, stride);
    p.spatial_dims = 3;
    p.in.d = 9;
    p.filter.d = 2;
    p.stride.d = stride;
    if (direction == DIRECTION_BACKWARD_DATA)
        p.k /= 2;
    else
        p.c /= 2;
    return p;
}

static bool is_same_tile(const struct perf_config *a, const struct perf_config *b)
{
    static const int axes[] = { TILE_M, TILE_N, WARPS_M, WARPS_N, WIDE };
    for (size_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++)
        if (a->values[axes[i]] != b->values[axes[i]])
            return false;
    return true;
}

/* Stores one valid config with bulk copies for each tile: the config with the fewest stages,
 * because it has the most resident work groups. Returns the number of configs. */
static unsigned tiles_in_bulk(const struct problem *problem, const struct target *target,
                              struct perf_config ret_tiles[TILES_MAX])
{
    struct perf_space space = igemm_path_mma.space(problem, target);
    uint32_t size = perf_space_size(&space);
    unsigned count = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config c;
        unsigned known = 0;
        perf_space_at(&space, i, &c);
        if (c.values[WIDE] < BULK_COPIES || c.values[SPLIT] != 1 ||
            !igemm_path_mma.config_is_valid(problem, target, &c))
            continue;
        while (known < count && !is_same_tile(&ret_tiles[known], &c))
            known++;
        if (known < count && ret_tiles[known].values[STAGES] <= c.values[STAGES])
            continue;
        assert_in_range(known, 0, TILES_MAX - 1);
        ret_tiles[known] = c;
        count += known == count;
    }
    return count;
}

static unsigned compile_tiles(const struct problem *problem, const struct target *target,
                              unsigned number, unsigned step)
{
    static struct solution solution;
    static struct perf_config tiles[TILES_MAX];
    struct kiln_err err = KILN_ERR_INIT;
    struct nvrtc_pool pool = { .count = 0 };
    unsigned bad = 0, count = tiles_in_bulk(problem, target, tiles);
    assert_in_range(count, 15, TILES_MAX);
    for (unsigned i = number; i < count; i += step) {
        char text[PERF_CONFIG_TEXT_MAX];
        perf_config_write(&tiles[i], text);
        struct solver_choice choice = { bytes_of_text("ConvImplicitGemm"), bytes_of_text(text) };
        must(solver_solve(problem, target, &choice, &solution, &err), err);
        for (uint32_t j = 0; j < solution.program_count; j++)
            assert_true(nvrtc_pool_add(&pool, &solution.programs[j], target->text) != SIZE_MAX);
    }
    for (size_t i = 0; i < pool.count; i++) {
        nvrtc_compile(&nvrtc, pool.programs[i]);
        bad += !is_clean(pool.programs[i]);
    }
    nvrtc_pool_done(&pool);
    return bad;
}

/* Changes |p| to TF32. Halves the channels, because TF32's tiles have half as many elements along
 * the reduction. */
static struct problem in_tf32(struct problem p)
{
    p.type = TYPE_FLOAT32;
    p.allow_tf32 = 1;
    if (p.direction == DIRECTION_BACKWARD_DATA)
        p.k /= 2;
    else
        p.c /= 2;
    return p;
}

static struct target hopper_with_maps(void)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct target target;
    must(target_parse(bytes_of_text("sm_90a"), &target, &err), err);
    target.has_tensor_maps = true;
    return target;
}

static struct problem problem_of_two_tiles(uint32_t number)
{
    uint32_t direction = number % 3, stride = 1 + number / 3 % 2;
    return number < 6 ? short_sum(direction, stride) : short_sum_of_volume(direction, stride);
}

static void every_tile_that_bulk_copies_feed_compiles(void **state)
{
    const struct target target = hopper_with_maps();
    unsigned bad = 0;
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        struct problem problem = problem_of_two_tiles(i);
        bad += every_tile_of_every_problem ? compile_tiles(&problem, &target, 0, 1)
                                           : compile_tiles(&problem, &target, i, 12);
    }
    assert_int_equal(bad, 0);
}

static void every_tile_in_tf32_that_bulk_copies_feed_compiles(void **state)
{
    const struct target target = hopper_with_maps();
    unsigned bad = 0;
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        struct problem problem = in_tf32(problem_of_two_tiles(i));
        bad += every_tile_of_every_problem ? compile_tiles(&problem, &target, 0, 1)
                                           : compile_tiles(&problem, &target, i, 12);
    }
    assert_int_equal(bad, 0);
}

/* Planes of 64 pixels are read in place. Other planes are packed first, and only the results are
 * stored as planes. */
static void every_tile_of_planes_compiles(void **state)
{
    static const struct extent sizes[] = { { 1, 8, 8 }, { 1, 10, 6 }, { 1, 9, 7 } };
    const struct target target = hopper_with_maps();
    unsigned bad = 0;
    (void)state;
    for (uint32_t i = 0; i < 18; i++) {
        struct problem problem = short_sum(i % 3, 1);
        problem.x_layout = problem.w_layout = problem.y_layout = LAYOUT_CHANNELS_FIRST;
        problem.in = sizes[i / 3 % 3];
        if (i >= 9)
            problem = in_tf32(problem);
        if (i >= 12) { /* without several taps, kernels would not pack a TF32 problem */
            problem.n = 64;
            problem.filter = (struct extent){ 1, 3, 3 };
            problem.pad = (struct extent){ 0, 1, 1 };
        }
        assert_ptr_equal(igemm_path_for(&problem, &target), &igemm_path_mma);
        bad += every_tile_of_every_problem ? compile_tiles(&problem, &target, 0, 1)
                                           : compile_tiles(&problem, &target, i, 24);
    }
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[TARGETS + 5] = {
        [TARGETS] = cmocka_unit_test(every_tile_that_bulk_copies_feed_compiles),
        [TARGETS + 1] = cmocka_unit_test(products_in_tf32_compile_without_diagnostics),
        [TARGETS + 2] = cmocka_unit_test(every_tile_in_tf32_that_bulk_copies_feed_compiles),
        [TARGETS + 3] = cmocka_unit_test(every_tile_of_planes_compiles),
        [TARGETS + 4] = cmocka_unit_test(the_largest_images_compile_without_diagnostics),
    };
    static char names[TARGETS][64];
    struct kiln_err err = KILN_ERR_INIT;
    if (nvrtc_open(&nvrtc, &err)) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    every_tile_of_every_problem = argc > 1;
    if (argc > 1)
        problems = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    for (size_t i = 0; i < TARGETS; i++) {
        snprintf(names[i], sizeof(names[i]), "every_solver_compiles_without_a_word_for_%s",
                 targets[i]);
        tests[i] = (struct CMUnitTest){ names[i], every_solver_compiles_without_diagnostics, NULL,
                                        NULL, (void *)&targets[i] };
    }
    return _cmocka_run_group_tests("nvrtc_programs", tests, TARGETS + 5, NULL, NULL);
}
