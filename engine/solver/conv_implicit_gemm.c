/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_implicit_gemm.h"

#include "engine/solver/conv_implicit_gemm_paths.h"

const struct igemm_path *const igemm_paths[] = {
    &igemm_path_mma,
    &igemm_path_mfma,
    &igemm_path_vector,
    NULL,
};

const struct igemm_path *igemm_path_for(const struct problem *problem, const struct target *target)
{
    const struct igemm_path *first = NULL;
    for (size_t i = 0; igemm_paths[i]; i++) {
        if (!igemm_paths[i]->applies(problem, target))
            continue;
        if (igemm_paths[i]->is_favoured(problem, target))
            return igemm_paths[i];
        if (!first)
            first = igemm_paths[i];
    }
    return first;
}

static bool applies(const struct problem *p, const struct target *target)
{
    return igemm_path_for(p, target) != NULL;
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    return igemm_path_for(p, target)->space(p, target);
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    return igemm_path_for(p, target)->config_is_valid(p, target, config);
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    igemm_path_for(p, target)->choose_config(p, target, ret_config);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    return igemm_path_for(p, target)->solve(p, target, config, ret_solution, err);
}

/* is_favoured is NULL, because the solvers for few channels precede this one in solvers[].  With
 * few channels, most of a tile is idle, but this solver still reads memory less often than
 * ConvDirectNaive. */
const struct solver solver_conv_implicit_gemm = {
    .name = "ConvImplicitGemm",
    .algorithm = "ImplicitGEMM",
    .applies = applies,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
