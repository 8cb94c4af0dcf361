/* SPDX-License-Identifier: MIT */
#ifndef KILN_SOLUTIONS_H
#define KILN_SOLUTIONS_H

/*
 * Solutions: every solver that applies to a problem, with its records and the size of its tuning
 * space.  A plan (<kiln/plan.h>) uses the first solver of this list.
 *
 * Ownership  A list is released with kiln_solutions_free.  The texts of a list are borrowed and
 *            stay valid until the list is released.
 * Threads    Lists are immutable, may be shared, and outlive their client.
 * Freshness  Every call sends a request to kilnd; nothing is cached.
 */
#include <kiln/plan.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_solutions;

struct kiln_solution {
    size_t size;
    const char *solver;    /* such as "ConvImplicitGemm" */
    const char *algorithm; /* for kiln_find_put, such as "miopenConvolutionFwdAlgoImplicitGEMM" */
    /* 1 if the solver is likely to be the fastest when nothing was measured */
    int is_favoured;
    double find_ms;     /* time recorded for the solver, in milliseconds; 0: no record */
    const char *config; /* perf config that the heuristic chooses; "" if nothing can be tuned */
    uint64_t workspace; /* bytes of workspace that |config| needs */
    /* The perf config recorded as the best.  "" if none is recorded, or if the recorded config is
     * not valid for the solver. */
    const char *best_config;
    double best_ms; /* time measured with |best_config|; 0: not known */
    /* Bytes of workspace that |best_config| needs; equal to |workspace| if there is no best
     * config. */
    uint64_t best_workspace;
    /* Number of points of the tuning space, valid or not.  A lease (<kiln/tuning.h>) divides these
     * points between processes. */
    uint32_t candidates;
    uint32_t valid;           /* number of valid candidates */
    int valid_is_an_estimate; /* 1 if |valid| is extrapolated from a sample of a large space */
};

/* Lists the solvers.  Uses only |target|, |database_id|, |driver|, |toolchain| and |timeout_ms| of
 * |options|.  Returns KILN_E_UNSUPPORTED if no solver applies. */
int kiln_solutions_get(struct kiln_client *client, const struct kiln_problem *problem,
                       const struct kiln_plan_options *options,
                       struct kiln_solutions **ret_solutions, struct kiln_error *err);
void kiln_solutions_free(struct kiln_solutions *solutions); /* accepts NULL */
unsigned kiln_solutions_count(const struct kiln_solutions *solutions);
/* Returns the solver at |index|, in order of preference: solvers with a find record, fastest first,
 * then favoured solvers (|is_favoured|), then the others.  Returns KILN_E_INVALID if |index| is too
 * large. */
int kiln_solutions_at(const struct kiln_solutions *solutions, unsigned index,
                      struct kiln_solution *ret_solution, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
