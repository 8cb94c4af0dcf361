/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Error bounds for kernels that compute in 32-bit floating point, or with operands in TF32.
 *
 * Role       computes the tolerance of a comparison with the reference; rounding.c derives it.
 *            reference_compare adds the rounding of the storage type
 * Ownership  plain values
 * Threading  pure functions
 */
#include <kiln/problem.h>

struct rounding {
    double relative; /* factor of the magnitude, which is an element's sum of |a b| */
    double absolute;
    /* Up to this magnitude, nothing is rounded.  Negative if results are never exact. */
    double exact_below;
};

/*
 * Returns the error bounds of |solver|.  If |solver| is NULL or unknown, the bounds are for a
 * solver that sums products of operands, in TF32 if the problem allows TF32.  |config| is the perf
 * config as in plans and databases, or NULL for any.  Every product of operands must be a multiple
 * of |quantum|; 0 allows any data.  Operands must be below 1 in magnitude, with random signs.
 */
struct rounding rounding_of(const struct kiln_problem *problem, const char *solver,
                            const char *config, double quantum);
/* Returns the largest error before the result is rounded to the storage type. */
double rounding_bound(const struct rounding *rounding, double magnitude);
