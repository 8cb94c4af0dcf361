/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What ConvGeneric's kernels on vector units and on matrix cores have in common: the size of the
 * product, and the arguments with the problem's sizes.
 *
 * Threading  pure functions
 */
#include "engine/solver/solver.h"

/* Returns the number of residue classes modulo the strides for backward data; otherwise 1. */
uint64_t generic_classes(const struct problem *p);

/* The product of one group: of the class with the most pixels, in backward data. */
struct generic_product {
    uint64_t channels; /* k; backward data: c */
    uint64_t others;   /* pixels of the result; backward weights: c, taps */
    uint64_t depth;    /* products that are summed for one result, at most */
};
struct generic_product generic_product_of(const struct problem *p);

/* How a tiling divides the product. */
struct generic_shape {
    uint32_t m, n; /* results of a tile */
    uint32_t items;
    uint64_t tiles;      /* of all groups and classes; each part of a split sum has so many */
    uint64_t depth;      /* products of a result, including padding */
    uint32_t part_least; /* a part of a split sum has at least this number of products */
    uint32_t resident;   /* work groups that a compute unit runs at a time */
    double rate;         /* relative speed of a compute unit if no part of a tile is idle */
    uint64_t traffic;    /* bytes that kernels read and write to pack operands */
};

void generic_add_argument(struct solution_kernel *kernel, enum argument_kind kind, uint64_t value);
void generic_add_number(struct solution_kernel *kernel, uint32_t value);
/* Adds the batch size and SIZE_PARAMETERS (kernels/conv_sizes.h). */
void generic_add_sizes(struct solution_kernel *kernel, const struct problem *p);
