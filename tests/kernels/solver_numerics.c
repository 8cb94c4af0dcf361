/* SPDX-License-Identifier: MIT */
/* Compares every solver, in every direction, type and layout, with the double-precision reference.
 * Runs random problems to which the solver applies, in turn with the config that the solver chooses
 * and with a random config.
 *
 *     solver_numerics [SOLVER|all [PROBLEMS [SEED]]]     PROBLEMS for each solver and direction */
#include "engine/solver/conv_generic.h"
#include "tests/kernels/random_problem.h"
#include "tests/kernels/trial.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first UNIFORM problems have each type in each layout; the others are random and may mix
 * layouts. By default, PROBLEMS is TYPES: each type once, in alternating layouts.
 * scripts/test-kernels runs more. */
#define TYPES 3u
#define LAYOUTS 2u
#define UNIFORM (TYPES * LAYOUTS)
/* Default number of problems for each solver and direction. It is small, because on one core, a
 * problem takes up to a second to compile with optimisation, and a third of that without. */
#define PROBLEMS TYPES
/* The same for ConvGeneric, whose program is the same for every problem of a type and layout. */
#define GENERIC_PROBLEMS 1u
#define ONE_IN_OPTIMISED 7u
#define DIRECTIONS 3u
#define SOLVERS_MAX 16u
/* Maximum number of random problems and configs to try. A solver that applies to none of them has
 * its own tests. */
#define DRAWS_MAX 20000u

struct suite {
    struct opencl_device *device;
    struct target target;
    unsigned problems;
    bool is_default;
    uint64_t seed;
};

struct subject {
    const struct suite *suite;
    const struct solver *solver;
    enum direction direction;
    unsigned problems;
    char name[96];
};

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static bool draw_problem(const struct subject *s, unsigned index, uint64_t *state,
                         struct problem *ret_problem)
{
    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        struct problem p = random_problem(state, s->direction);
        if (index < UNIFORM) {
            p.type = index % TYPES;
            p.x_layout = p.w_layout = p.y_layout =
                (index / TYPES + index % TYPES + s->direction) % LAYOUTS;
        }
        *ret_problem = p;
        if (s->solver->applies(ret_problem, &s->suite->target))
            return true;
    }
    return false;
}

static bool draw_config(const struct subject *s, const struct problem *problem, uint64_t *state,
                        char ret_text[PERF_CONFIG_TEXT_MAX])
{
    struct perf_space space = solver_space(s->solver, problem, &s->suite->target);
    uint32_t size = perf_space_size(&space);
    for (unsigned i = 0; size > 0 && i < DRAWS_MAX; i++) {
        struct perf_config config;
        perf_space_at(&space, (uint32_t)(next(state) % size), &config);
        if (s->solver->config_is_valid(problem, &s->suite->target, &config)) {
            perf_config_write(&config, ret_text);
            return true;
        }
    }
    return false;
}

static bool is_right(const struct subject *s, const struct problem *problem, const char *config,
                     enum opencl_effort effort, uint64_t seed)
{
    const struct trial_options options = { .choice = { bytes_of_text(s->solver->name),
                                                       bytes_of_text(config) },
                                           .data = seed % 4 == 3 ? DATA_GENERAL : DATA_EXACT,
                                           .seed = seed };
    struct trial trial;
    bool right = trial_init(&trial, problem, &s->suite->target, &options) &&
                 trial_build_and_run(&trial, s->suite->device, effort) && trial_is_right(&trial);
    if (!right) {
        char line[384];
        problem_to_driver(problem, line, sizeof(line));
        fprintf(stderr, "  %s, layouts x %u w %u y %u, seed %llu\n", line,
                (unsigned)problem->x_layout, (unsigned)problem->w_layout,
                (unsigned)problem->y_layout, (unsigned long long)seed);
    }
    trial_done(&trial);
    return right;
}

/* By default, ConvGeneric is not optimised, because that takes two seconds for each program. */
static bool is_optimised(const struct subject *s, unsigned index)
{
    return index % ONE_IN_OPTIMISED == 0 && s->problems != GENERIC_PROBLEMS;
}

static void random_problems_match_the_reference(void **state)
{
    const struct subject *s = *state;
    uint64_t random = s->suite->seed * DIRECTIONS + s->direction;
    unsigned wrong = 0, problems = 0;
    for (unsigned i = 0; i < s->problems; i++) {
        struct problem problem;
        char config[PERF_CONFIG_TEXT_MAX] = "";
        if (!draw_problem(s, i, &random, &problem))
            continue;
        if ((i + i / UNIFORM + s->direction) % 2 && !draw_config(s, &problem, &random, config))
            config[0] = '\0';
        wrong += !is_right(s, &problem, config,
                           is_optimised(s, i) ? OPENCL_OPTIMISED : OPENCL_QUICK, next(&random));
        problems++;
    }
    assert_int_equal(wrong, 0);
    SKIP_IF(problems == 0, "the solver does not support the direction, or OpenCL devices");
}

static size_t add_subjects(struct suite *suite, const struct solver *solver, unsigned problems,
                           struct subject *subjects, struct CMUnitTest *tests)
{
    for (unsigned direction = 0; direction < DIRECTIONS; direction++) {
        struct subject *s = &subjects[direction];
        *s = (struct subject){ suite, solver, (enum direction)direction, problems, "" };
        snprintf(s->name, sizeof(s->name), "%s_%s_matches_the_reference", solver->name,
                 direction_name(s->direction));
        tests[direction] =
            (struct CMUnitTest){ s->name, random_problems_match_the_reference, NULL, NULL, s };
    }
    return DIRECTIONS;
}

static size_t add_solvers(struct suite *suite, const char *only, struct subject *subjects,
                          struct CMUnitTest *tests)
{
    size_t count = 0;
    unsigned problems = suite->is_default ? GENERIC_PROBLEMS : suite->problems;
    for (size_t i = 0; i < SOLVERS_MAX - 1 && solvers[i]; i++)
        if (!only || strcmp(only, solvers[i]->name) == 0)
            count +=
                add_subjects(suite, solvers[i], suite->problems, subjects + count, tests + count);
    if (!only || strcmp(only, solver_conv_generic.name) == 0)
        count +=
            add_subjects(suite, &solver_conv_generic, problems, subjects + count, tests + count);
    return count;
}

int main(int argc, char **argv)
{
    static struct subject subjects[SOLVERS_MAX * DIRECTIONS];
    static struct CMUnitTest tests[SOLVERS_MAX * DIRECTIONS];
    char why[256] = "";
    struct suite suite = {
        .device = opencl_open(why),
        .target = { .family = TARGET_OPENCL, .text = "opencl:test:1" },
        .problems = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : PROBLEMS,
        .is_default = argc <= 2,
        .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1,
    };
    if (!suite.device) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    const char *only = argc > 1 && strcmp(argv[1], "all") != 0 ? argv[1] : NULL;
    size_t count = add_solvers(&suite, only, subjects, tests);
    int failed = _cmocka_run_group_tests("solver_numerics", tests, count, NULL, NULL);
    opencl_close(suite.device);
    return count == 0 ? 2 : failed;
}
