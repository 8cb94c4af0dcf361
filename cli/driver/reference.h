/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The reference: convolutions in double precision on the CPU.  The result of a kernel, which
 * accumulates in 32-bit floating point, may differ from the reference by at most an error bound.
 *
 * Role       decides for each element of a kernel's result whether it can be correct.  Shares no
 *            code and no loop order with the kernels
 * Ownership  every array belongs to the caller
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

/* All arrays have the problem's own layouts. */
struct reference_tensors {
    const double *x, *w, *y; /* the operands; the tensor that the direction computes is not read */
    double *result;
    /* The sum of |a * b| for each element of |result|, in the layout of |result|.  May be NULL. */
    double *magnitude;
};

/* Computes |result| and |magnitude| on |threads| threads; 0 means one for each core.  The problem
 * must pass kiln_problem_check.
 * Returns KILN_E_NO_MEMORY if there is no memory for copies of the operands. */
int reference_run(const struct kiln_problem *problem, const struct reference_tensors *tensors,
                  unsigned threads, struct kiln_error *err);

struct reference_verdict {
    uint64_t wrong; /* elements whose error is larger than their bound, or that are NaN */
    /* The element farthest beyond its bound.  If none is beyond its bound, the element with the
     * largest error. */
    uint64_t index;
    double got, want, bound;
    double error;
};

/* Compares |got| with |result|.  |got| is a kernel's result, in the problem's type and layout. */
struct reference_verdict reference_compare(const struct kiln_problem *problem, const void *got,
                                           const double *result, const double *magnitude,
                                           const struct rounding *rounding);
