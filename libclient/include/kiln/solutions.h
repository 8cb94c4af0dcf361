/* SPDX-License-Identifier: MIT */
#ifndef KILN_SOLUTIONS_H
#define KILN_SOLUTIONS_H

/*
 * Solutions: every solver that applies to a problem, what is recorded of it and how much there is
 * to tune.  A plan (<kiln/plan.h>) takes the first.
 *
 * Ownership  a list is released with kiln_solutions_free; texts are borrowed and live as long
 * Threads    lists are immutable and may be shared, and outlive their client
 * Freshness  every call asks kilnd
 */
#include <kiln/plan.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct kiln_solutions;

struct kiln_solution {
    size_t size;              /* in: sizeof(struct kiln_solution) */
    const char *solver;       /* "ConvImplicitGemm" */
    const char *algorithm;    /* for kiln_find_put: "miopenConvolutionFwdAlgoImplicitGEMM" */
    int is_favoured;          /* 1: likely the fastest, where nothing was measured */
    double find_ms;           /* recorded for the solver, milliseconds; 0: nothing is */
    const char *config;       /* perf config by heuristic; "": nothing to tune */
    uint64_t workspace;       /* with |config|, bytes */
    const char *best_config;  /* recorded as the best; "": nothing is, or it does not fit */
    double best_ms;           /* measured with it; 0: not known */
    uint64_t best_workspace;  /* with it, where there is one; else as |workspace| */
    uint32_t candidates;      /* points of the tuning space, valid or not: what leases share out */
    uint32_t valid;           /* of them */
    int valid_is_an_estimate; /* 1: from a sample of a large space */
};

/* Of the options |target|, |database_id|, |driver| and |toolchain| count.  KILN_E_UNSUPPORTED where
 * no solver applies. */
int kiln_solutions_get(struct kiln_client *client, const struct kiln_problem *problem,
                       const struct kiln_plan_options *options, int timeout_ms,
                       struct kiln_solutions **ret_solutions, struct kiln_error *err);
void kiln_solutions_free(struct kiln_solutions *solutions); /* accepts NULL */
unsigned kiln_solutions_count(const struct kiln_solutions *solutions);
/* In order of preference: those with a find record, the fastest first, then the favoured ones. */
int kiln_solutions_at(const struct kiln_solutions *solutions, unsigned index,
                      struct kiln_solution *ret_solution, struct kiln_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
