/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Solvers: algorithms that can solve some problems.  Each has its own C file; the registry lists
 * them in order of preference.
 *
 * Role       from a problem and a target, makes the programs to compile, the launch geometry and
 *            the kernel arguments
 * Ownership  a solution owns its option texts (fixed arrays); sources are static data
 * Threading  pure functions
 */
#include "common/protocol/messages.h"
#include "common/protocol/problem.h"
#include "common/protocol/tensor_map.h"
#include "common/target/target.h"
#include "engine/solver/perf_config.h"

/* Maximum number of headers of one program. */
#define SOLUTION_HEADERS_MAX 7

struct solution_program {
    const char *name;                /* "conv_direct_naive.cl", the file's name in kernels/ */
    struct bytes source;             /* static: embedded from kernels/ */
    const char *const *header_names; /* static; header i is header_texts[i] */
    struct bytes header_texts[SOLUTION_HEADERS_MAX]; /* static bytes */
    uint32_t header_count;
    char options[2048]; /* checked against the allow-list like any client's options */
};

struct solution_argument {
    enum argument_kind kind;
    uint64_t value; /* ARGUMENT_TENSOR_MAP: index into solution.maps */
};

struct solution_kernel {
    const char *name;      /* entry point, static */
    uint32_t program;      /* index into solution.programs */
    uint32_t grid[3];      /* work groups */
    uint32_t group[3];     /* work items in one work group */
    uint32_t shared_bytes; /* dynamic shared memory (LDS) of the launch, in addition to static
                            * arrays */
    uint32_t argument_count;
    struct solution_argument arguments[LIMIT_KERNEL_ARGUMENTS];
};

struct solution {
    const struct solver *solver;
    struct perf_config config; /* the config that it was made with; count 0: the solver has no
                                * space */
    uint64_t workspace_size;   /* bytes */
    uint32_t program_count;
    struct solution_program programs[LIMIT_PLAN_KERNELS];
    uint32_t kernel_count;
    struct solution_kernel kernels[LIMIT_PLAN_KERNELS];
    uint32_t map_count;
    struct tensor_map maps[LIMIT_PLAN_MAPS];
};

struct solver {
    const char *name;      /* "ConvDirectNaive" */
    const char *algorithm; /* MIOpen's name for its family: "Direct", "ImplicitGEMM", "Winograd",
                            * ... */
    bool (*applies)(const struct problem *problem, const struct target *target);
    /* Whether it is likely the fastest solver when nothing was measured.  NULL: always when it
     * applies. */
    bool (*is_favoured)(const struct problem *problem, const struct target *target);

    /* The tuning space: the valid points of these axes.  NULL: nothing to tune.  The functions
     * below may only be called for problems to which the solver applies. */
    struct perf_space (*space)(const struct problem *problem, const struct target *target);
    bool (*config_is_valid)(const struct problem *problem, const struct target *target,
                            const struct perf_config *config); /* all values must be on their
                                                                * axes */
    /* Chooses a valid config by heuristic. */
    void (*choose_config)(const struct problem *problem, const struct target *target,
                          struct perf_config *ret_config);

    /* |config| must be valid. */
    enum kiln_code (*solve)(const struct problem *problem, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err);
};

extern const struct solver *const solvers[]; /* NULL-terminated, best first */

/* Returns NULL when no solver has that name. */
const struct solver *solver_find(struct bytes name);
/* The solver of that name, if it applies to the (valid) problem.  KILN_NOT_FOUND and
 * KILN_UNSUPPORTED as in solver_solve. */
KILN_MUST_CHECK enum kiln_code solver_take(const struct problem *problem,
                                           const struct target *target, struct bytes name,
                                           const struct solver **ret_solver, struct kiln_err *err);
/* The first favoured solver that applies, else the first that applies, else NULL. |problem| must
 * be valid. */
const struct solver *solver_choose(const struct problem *problem, const struct target *target);
/* Fails with KILN_UNSUPPORTED and a message that no solver applies. */
enum kiln_code solver_none(const struct problem *problem, const struct target *target,
                           struct kiln_err *err);
/* The solver's tuning space; empty when there is nothing to tune. */
struct perf_space solver_space(const struct solver *solver, const struct problem *problem,
                               const struct target *target);

/* The solver and the config that a caller or a tuning record demands.  Heuristics choose what is
 * left empty. */
struct solver_choice {
    struct bytes solver; /* empty: as solver_choose */
    struct bytes config; /* in the format of perf_config_write; empty: chosen by heuristic */
};

/* KILN_UNSUPPORTED when no solver applies.  KILN_NOT_FOUND when no solver has that name; the
 * message lists the names.  KILN_INVALID for a config that is not in the solver's space. */
KILN_MUST_CHECK enum kiln_code solver_solve(const struct problem *problem,
                                            const struct target *target,
                                            const struct solver_choice *choice,
                                            struct solution *ret_solution, struct kiln_err *err);
