/* SPDX-License-Identifier: MIT */
#include "engine/solver/solver.h"

#include "engine/solver/conv_generic.h"

#include <stdio.h>

const struct solver *solver_find(struct bytes name)
{
    for (size_t i = 0; solvers[i]; i++)
        if (bytes_equal_text(name, solvers[i]->name))
            return solvers[i];
    return bytes_equal_text(name, solver_conv_generic.name) ? &solver_conv_generic : NULL;
}

struct perf_space solver_space(const struct solver *solver, const struct problem *problem,
                               const struct target *target)
{
    return solver->space ? solver->space(problem, target) : (struct perf_space){ 0 };
}

const struct solver *solver_choose(const struct problem *problem, const struct target *target)
{
    const struct solver *first = NULL;
    for (size_t i = 0; solvers[i]; i++) {
        if (!solvers[i]->applies(problem, target))
            continue;
        if (!solvers[i]->is_favoured || solvers[i]->is_favoured(problem, target))
            return solvers[i];
        if (!first)
            first = solvers[i];
    }
    return first;
}

static enum kiln_code fail_unknown(struct bytes name, struct kiln_err *err)
{
    char known[256] = "";
    size_t used = 0;
    for (size_t i = 0; solvers[i] && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
                                 solvers[i]->name);
    return kiln_fail(err, KILN_NOT_FOUND, "no solver is called '%.*s'; there are: %s",
                     (int)(name.size < 64 ? name.size : 64), (const char *)name.data, known);
}

static enum kiln_code fail_unsupported(const struct problem *problem, const struct target *target,
                                       const char *who_can_or_cannot, struct kiln_err *err)
{
    char line[384];
    problem_to_driver(problem, line, sizeof(line));
    return kiln_fail(err, KILN_UNSUPPORTED, "%s solve this %s problem on '%s': %s",
                     who_can_or_cannot, data_type_name((enum data_type)problem->type), target->text,
                     line);
}

enum kiln_code solver_none(const struct problem *problem, const struct target *target,
                           struct kiln_err *err)
{
    return fail_unsupported(problem, target, "no solver can", err);
}

struct named_config {
    const struct solver *solver;
    struct bytes text;
};

static enum kiln_code read_config(struct named_config named, const struct problem *problem,
                                  const struct target *target, struct perf_config *ret_config,
                                  struct kiln_err *err)
{
    struct perf_space space = solver_space(named.solver, problem, target);
    enum kiln_code rc = perf_config_read(named.text, &space, ret_config, err);
    if (!rc && !named.solver->config_is_valid(problem, target, ret_config))
        rc = kiln_fail(err, KILN_INVALID, "this perf config does not fit the problem");
    return rc ? kiln_while(err, "perf config '%.*s' of %s",
                           (int)(named.text.size < 96 ? named.text.size : 96),
                           (const char *)named.text.data, named.solver->name)
              : KILN_OK;
}

static enum kiln_code solve_with(struct named_config named, const struct problem *problem,
                                 const struct target *target, struct solution *ret_solution,
                                 struct kiln_err *err)
{
    const struct solver *solver = named.solver;
    struct perf_config config = { 0 };
    enum kiln_code rc = KILN_OK;
    if (named.text.size > 0)
        rc = read_config(named, problem, target, &config, err);
    else if (solver->space)
        solver->choose_config(problem, target, &config);
    if (!rc)
        rc = solver->solve(problem, target, &config, ret_solution, err);
    if (!rc) {
        ret_solution->solver = solver;
        ret_solution->config = config;
    }
    return rc;
}

enum kiln_code solver_take(const struct problem *problem, const struct target *target,
                           struct bytes name, const struct solver **ret_solver,
                           struct kiln_err *err)
{
    const struct solver *named = solver_find(name);
    if (!named)
        return fail_unknown(name, err);
    if (!named->applies(problem, target)) {
        char cannot[80];
        snprintf(cannot, sizeof(cannot), "%s cannot", named->name);
        return fail_unsupported(problem, target, cannot, err);
    }
    *ret_solver = named;
    return KILN_OK;
}

enum kiln_code solver_solve(const struct problem *problem, const struct target *target,
                            const struct solver_choice *choice, struct solution *ret_solution,
                            struct kiln_err *err)
{
    struct named_config named = { .text = choice->config };
    enum kiln_code rc = problem_check(problem, err);
    if (!rc && choice->solver.size > 0)
        rc = solver_take(problem, target, choice->solver, &named.solver, err);
    else if (!rc) {
        named.solver = solver_choose(problem, target);
        rc = named.solver ? KILN_OK : solver_none(problem, target, err);
    }
    return rc ? rc : solve_with(named, problem, target, ret_solution, err);
}
