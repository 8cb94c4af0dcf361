/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Solvers: algorithms that can solve some problems.  One C file each; the registry lists them in
 * order of preference.
 *
 * Role       problem and target in; programs to compile, launch geometry and arguments out
 * Ownership  a solution owns its option texts (fixed arrays); sources are static data
 * Threading  pure functions
 */
#include "common/messages.h"
#include "common/problem.h"
#include "common/target.h"

/* Headers of one program; today every kernel has the prelude and nothing else. */
#define SOLUTION_HEADERS_MOST 4

struct solution_program {
    const char *name;                /* "conv_direct_naive.cl", the file's name in kernels/ */
    struct bytes source;             /* static: embedded from kernels/ */
    const char *const *header_names; /* static; header i is header_texts[i] */
    struct bytes header_texts[SOLUTION_HEADERS_MOST]; /* static bytes */
    uint32_t header_count;
    char options[2048]; /* through the allow-list like any client's */
};

struct solution_argument {
    enum argument_kind kind;
    uint64_t value;
};

struct solution_kernel {
    const char *name;  /* entry point, static */
    uint32_t program;  /* index into solution.programs */
    uint32_t grid[3];  /* work groups */
    uint32_t group[3]; /* work items in a group */
    uint32_t argument_count;
    struct solution_argument arguments[LIMIT_KERNEL_ARGUMENTS];
};

struct solution {
    const struct solver *solver;
    uint64_t workspace_size; /* bytes */
    uint32_t program_count;
    struct solution_program programs[LIMIT_PLAN_KERNELS];
    uint32_t kernel_count;
    struct solution_kernel kernels[LIMIT_PLAN_KERNELS];
};

struct solver {
    const char *name; /* "ConvDirectNaive" */
    bool (*applies)(const struct problem *problem, const struct target *target);
    /* Only for problems that apply. */
    enum kiln_code (*solve)(const struct problem *problem, const struct target *target,
                            struct solution *ret_solution, struct kiln_err *err);
};

extern const struct solver *const solvers[]; /* NULL-terminated, best first */

/* The first solver that applies, or the one named |forced| (not empty).  KILN_UNSUPPORTED when
 * none applies, KILN_NOT_FOUND when there is no solver of that name (the sentence lists them). */
KILN_MUST_CHECK enum kiln_code solver_solve(const struct problem *problem,
                                            const struct target *target, struct bytes forced,
                                            struct solution *ret_solution, struct kiln_err *err);
