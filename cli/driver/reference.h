/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The reference: convolutions in double precision on the CPU, and how far from it a kernel that
 * accumulates in 32-bit floating point may be.
 *
 * Role       says of each element of a kernel's result whether it can be right; shares no code
 *            and no loop order with the kernels
 * Ownership  every array is the caller's
 * Threading  pure functions; reference_run starts threads of its own and joins them
 *
 *     storage_fill(type, x, ...); storage_widen(type, x, ..., wide_x);       // likewise w
 *     memset(y, 0xff, bytes);                                                // poison: NaN
 *     ... run the kernel ...
 *     reference_run(&problem, &(struct reference_tensors){ .x = wide_x, .w = wide_w,
 *                   .result = want, .magnitude = magnitude }, 2, &err);
 *     rounding = rounding_of(&problem, "ConvDirectNaive", NULL, STORAGE_QUANTUM);
 *     verdict = reference_compare(&problem, y, want, magnitude, &rounding);
 */
#include "cli/driver/rounding.h"

/* All in the problem's own layouts; the direction's output needs no operand. */
struct reference_tensors {
    const double *x, *w, *y; /* the two that the direction reads; the third is not looked at */
    double *result;          /* the third tensor */
    double *magnitude;       /* as |result|: the sum of |a * b| behind each element; or NULL */
};

/* |threads| 0: as many as the machine has cores.  Only for problems that pass
 * kiln_problem_check.  KILN_E_NO_MEMORY when its copies of the operands do not fit. */
int reference_run(const struct kiln_problem *problem, const struct reference_tensors *tensors,
                  unsigned threads, struct kiln_error *err);

struct reference_verdict {
    uint64_t wrong; /* elements beyond their bound, NaN included */
    uint64_t index; /* of the worst one: the furthest beyond its bound, else the furthest off */
    double got, want, bound; /* there */
    double error;            /* largest |got - want| */
};

/* |got| holds the direction's output in the problem's type and layout. */
struct reference_verdict reference_compare(const struct kiln_problem *problem, const void *got,
                                           const double *result, const double *magnitude,
                                           const struct rounding *rounding);
