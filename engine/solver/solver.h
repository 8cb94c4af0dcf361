/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Solvers: algorithms that can solve some problems.  Each solver has its own C file; the registry
 * lists the solvers in order of preference.
 *
 * Role       turns a problem and a target into the programs to compile, the launch geometry and the
 *            kernel arguments
 * Ownership  a solution owns its option texts (fixed arrays); sources are static data
 * Threading  pure functions
 */
#include "common/protocol/messages.h"
#include "common/protocol/problem.h"
#include "common/protocol/tensor_map.h"
#include "common/target/target.h"
#include "engine/solver/perf_config.h"

#define SOLUTION_HEADERS_MAX 9

struct solution_program {
    /* Such as "conv_direct_naive.cl". */
    const char *name;
    struct bytes source;
    const char *const *header_names; /* static, like the texts */
    struct bytes header_texts[SOLUTION_HEADERS_MAX];
    uint32_t header_count;
    /* Checked against the allow-list, like the options of a client. */
    char options[2048];
};

struct solution_argument {
    enum argument_kind kind;
    uint64_t value; /* for ARGUMENT_TENSOR_MAP: index into solution.maps */
};

struct solution_kernel {
    const char *name; /* the entry point; static */
    uint32_t program; /* index into solution.programs */
    uint32_t grid[3];
    uint32_t group[3];
    uint32_t shared_bytes; /* in addition to static arrays */
    uint32_t argument_count;
    struct solution_argument arguments[LIMIT_KERNEL_ARGUMENTS];
};

struct solution {
    const struct solver *solver;
    /* The count is 0 if the solver has no tuning space. */
    struct perf_config config;
    uint64_t workspace_size;
    uint32_t program_count;
    struct solution_program programs[LIMIT_PLAN_KERNELS];
    uint32_t kernel_count;
    struct solution_kernel kernels[LIMIT_PLAN_KERNELS];
    uint32_t map_count;
    struct tensor_map maps[LIMIT_PLAN_MAPS];
};

struct solver {
    const char *name; /* such as "ConvDirectNaive" */
    /* MIOpen's name of the solver's family: "Direct", "ImplicitGEMM", "Winograd", ... */
    const char *algorithm;
    bool (*applies)(const struct problem *problem, const struct target *target);
    /* Returns whether the solver is likely to be the fastest; used if nothing was measured.  NULL:
     * always. */
    bool (*is_favoured)(const struct problem *problem, const struct target *target);

    /* Returns the axes of the tuning space.  NULL: nothing to tune.  This function and those below
     * may only be called for problems to which the solver applies. */
    struct perf_space (*space)(const struct problem *problem, const struct target *target);
    bool (*config_is_valid)(const struct problem *problem, const struct target *target,
                            const struct perf_config *config);
    void (*choose_config)(const struct problem *problem, const struct target *target,
                          struct perf_config *ret_config);

    /* |config| must be valid. */
    enum kiln_code (*solve)(const struct problem *problem, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err);
};

extern const struct solver *const solvers[]; /* NULL-terminated, best first */

/* Also finds ConvGeneric, which is not in solvers[]. */
const struct solver *solver_find(struct bytes name);
/* |problem| must be valid.  Returns KILN_NOT_FOUND for an unknown name, and KILN_UNSUPPORTED if the
 * solver does not apply. */
KILN_MUST_CHECK enum kiln_code solver_take(const struct problem *problem,
                                           const struct target *target, struct bytes name,
                                           const struct solver **ret_solver, struct kiln_err *err);
/* Returns the first solver that applies and is favoured; else the first one that applies; else
 * NULL.  |problem| must be valid. */
const struct solver *solver_choose(const struct problem *problem, const struct target *target);
enum kiln_code solver_none(const struct problem *problem, const struct target *target,
                           struct kiln_err *err);
struct perf_space solver_space(const struct solver *solver, const struct problem *problem,
                               const struct target *target);

/* The solver and the config that a caller or a tuning record requests.  If one of them is empty, a
 * heuristic chooses it. */
struct solver_choice {
    struct bytes solver;
    /* In the format of perf_config_write. */
    struct bytes config;
};

/* Returns KILN_UNSUPPORTED if no solver applies, or the requested one does not; KILN_NOT_FOUND for
 * an unknown name; and KILN_INVALID if the config is not in the solver's space. */
KILN_MUST_CHECK enum kiln_code solver_solve(const struct problem *problem,
                                            const struct target *target,
                                            const struct solver_choice *choice,
                                            struct solution *ret_solution, struct kiln_err *err);
