/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/solver/solver.h"

static inline uint32_t valid_points(const struct solver *solver, const struct problem *problem,
                                    const struct target *target)
{
    struct perf_space space = solver_space(solver, problem, target);
    uint32_t size = perf_space_size(&space), valid = 0;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config config;
        perf_space_at(&space, i, &config);
        valid += solver->config_is_valid(problem, target, &config);
    }
    return valid;
}

/* Stores the config that the solver chooses in |ret_config|. Returns whether that config is
 * valid and in the space. */
static inline bool choice_is_valid(const struct solver *solver, const struct problem *problem,
                                   const struct target *target, struct perf_config *ret_config)
{
    solver->choose_config(problem, target, ret_config);
    struct perf_space space = solver_space(solver, problem, target);
    for (uint32_t i = 0; i < space.count; i++)
        if (!perf_axis_has(&space.axes[i], ret_config->values[i]))
            return false;
    return ret_config->count == space.count && solver->config_is_valid(problem, target, ret_config);
}
