/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The end of a split sum: partial results in the workspace become the output
 * (kernels/conv_split_reduce.cl).
 *
 * Role       adds a program and a kernel to a solution under construction
 * Threading  pure function
 */
#include "engine/solver/solver.h"

struct split_reduce {
    uint32_t type;                   /* enum data_type of the output */
    struct solution_argument parts;  /* where |splits| times |elements| fp32 begin */
    struct solution_argument output; /* whose layout each part has */
    uint64_t elements;               /* of the output, fewer than 2^31 */
    uint32_t splits;
};

/* Behind the last kernel; always sums in the same order. */
void split_reduce_add(const struct split_reduce *reduce, struct solution *solution);
