/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The end of a split sum: adds up the partial results in the workspace and stores the output
 * (kernels/conv_split_reduce.cl).
 *
 * Role       adds a program and a kernel to a solution under construction
 * Threading  pure function
 */
#include "engine/solver/solver.h"

struct split_reduce {
    uint32_t type;                   /* enum data_type of the output */
    struct solution_argument parts;  /* |splits| partial results of |elements| fp32 values */
    struct solution_argument output; /* the parts have its layout */
    uint64_t elements;               /* elements of the output, fewer than 2^31 */
    uint32_t splits;
};

/* Appends the kernel to those of |solution|.  The kernel always sums in the same order, so results
 * are reproducible. */
void split_reduce_add(const struct split_reduce *reduce, struct solution *solution);
