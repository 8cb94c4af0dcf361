/* SPDX-License-Identifier: MIT */
#include "engine/solver/solver.h"

#include "engine/solver/conv_direct_naive.h"

#include <stdio.h>

const struct solver *const solvers[] = {
    &solver_conv_direct_naive, /* solves everything, so it comes last */
    NULL,
};

static const struct solver *find(struct bytes name)
{
    for (size_t i = 0; solvers[i]; i++)
        if (bytes_equal_text(name, solvers[i]->name))
            return solvers[i];
    return NULL;
}

static const struct solver *first_that_applies(const struct problem *problem,
                                               const struct target *target)
{
    for (size_t i = 0; solvers[i]; i++)
        if (solvers[i]->applies(problem, target))
            return solvers[i];
    return NULL;
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

enum kiln_code solver_solve(const struct problem *problem, const struct target *target,
                            struct bytes forced, struct solution *ret_solution,
                            struct kiln_err *err)
{
    enum kiln_code rc = problem_check(problem, err);
    if (rc)
        return rc;
    if (forced.size == 0) {
        const struct solver *first = first_that_applies(problem, target);
        return first ? first->solve(problem, target, ret_solution, err)
                     : fail_unsupported(problem, target, "no solver can", err);
    }
    const struct solver *named = find(forced);
    if (!named)
        return fail_unknown(forced, err);
    if (!named->applies(problem, target)) {
        char cannot[80];
        snprintf(cannot, sizeof(cannot), "%s cannot", named->name);
        return fail_unsupported(problem, target, cannot, err);
    }
    return named->solve(problem, target, ret_solution, err);
}
