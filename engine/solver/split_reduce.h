/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The last kernel of a split sum, which adds up the partial results in the workspace and stores the
 * output (kernels/conv_split_reduce.cl).
 *
 * Role       adds a program and a kernel to a solution under construction
 * Threading  pure function
 */
#include "engine/solver/solver.h"

struct split_reduce {
    uint32_t type; /* enum data_type of the output */
    /* |splits| partial results, each with |elements| fp32 values. */
    struct solution_argument parts;
    struct solution_argument output; /* has the layout of the parts */
    uint64_t elements;               /* below 2^31 */
    uint32_t splits;
};

/* Adds the kernel. The kernel always sums in the same order, so results are reproducible. */
void split_reduce_add(const struct split_reduce *reduce, struct solution *solution);
