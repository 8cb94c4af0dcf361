/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How far a kernel that computes in 32-bit floating point may be from the true result.
 *
 * Role       the tolerances of every comparison with the reference, with their derivation
 *            (rounding.c); what a result is stored as comes on top, exactly (reference_compare)
 * Ownership  plain values
 * Threading  pure functions
 */
#include <kiln/problem.h>

struct rounding {
    double relative;    /* of the magnitude, the sum of |a b| behind an element */
    double absolute;    /* beside that */
    double exact_below; /* a magnitude up to which nothing is rounded; below 0: none */
};

/*
 * |solver| by its name (NULL, or one that is not known here: it sums products of operands), with
 * |config| as plans and databases have it (NULL: any).  |quantum|: every product of operands is a
 * multiple of it; 0 for any data.  Operands are below 1 in magnitude, with signs at random.
 */
struct rounding rounding_of(const struct kiln_problem *problem, const char *solver,
                            const char *config, double quantum);
/* Before the result is rounded to the storage type. */
double rounding_bound(const struct rounding *rounding, double magnitude);
