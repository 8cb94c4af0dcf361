/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Test data for find and tune: the contents of tensors, and how far two correct results may differ.
 *
 * Ownership  the caller owns every array
 * Threading  pure functions
 */
#include "common/protocol/problem.h"

#include <stdbool.h>
#include <stdint.h>

enum operands {
    /* Odd multiples of a power of two, with so few bits that 32-bit sums of their products are
     * exact in any order.  Two correct results are then bitwise equal. */
    OPERANDS_EXACT,
    /* Values that use all bits of the type, like training data.  The operands influence the GPU's
     * power consumption, and thereby its clock. */
    OPERANDS_GENERAL,
};

/* Fills |data| with magnitudes below 1.  KILN_INT8 is not supported. */
void operands_fill(enum operands kind, const struct problem *problem, void *data, uint64_t count,
                   uint64_t seed);

/* Returns infinity if one of the elements is not a number. */
double operands_largest(enum data_type type, const void *data, uint64_t count);

struct agreement { /* how far two results may differ, before they are rounded for storage */
    enum data_type type;
    double bound; /* 0 if the results must be equal */
};
/* Returns how far results may differ.  |is_winograd| says whether Winograd transforms were used for
 * one of the results.  |largest| is the product of the operands' largest magnitudes, or 0 for
 * OPERANDS_EXACT. */
struct agreement agreement_of(const struct problem *problem, bool is_winograd, double largest);

struct disagreement {
    uint64_t count;
    uint64_t first;
    double got, want;
};
struct disagreement operands_compare(const struct agreement *agreement, const void *got,
                                     const void *want, uint64_t count);
