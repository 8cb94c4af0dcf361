/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Error bounds for kernels that compute in 32-bit floating point, or with operands in TF32.
 *
 * Role       the tolerance of every comparison with the reference; rounding.c derives it.
 *            reference_compare adds the exact rounding of the storage type
 * Ownership  plain values
 * Threading  pure functions
 */
#include <kiln/problem.h>

struct rounding {
    double relative;    /* factor of the magnitude, an element's sum of |a b| */
    double absolute;    /* added to the relative part */
    double exact_below; /* up to this magnitude nothing is rounded; negative: never exact */
};

/*
 * The bounds for |solver|.  NULL, or an unknown name, means a solver that sums products of
 * operands, in TF32 if the problem allows it.  |config| is the perf config as plans and databases
 * write it (NULL: any).  Every product of operands must be a multiple of |quantum|; 0 allows any
 * data.  Operands must be below 1 in magnitude, with random signs.
 */
struct rounding rounding_of(const struct kiln_problem *problem, const char *solver,
                            const char *config, double quantum);
/* The largest error allowed before the result is rounded to the storage type. */
double rounding_bound(const struct rounding *rounding, double magnitude);
