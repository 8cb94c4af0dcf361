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
     * exact in any order.  Two correct results are then equal to the last bit. */
    OPERANDS_EXACT,
    /* Values that use all bits of the type, like training data.  A GPU's power, and with it its
     * clock, depends on them. */
    OPERANDS_GENERAL,
};

/* Fills |data| with values below 1 in magnitude. KILN_INT8 is not supported. */
void operands_fill(enum operands kind, const struct problem *problem, void *data, uint64_t count,
                   uint64_t seed);

/* The largest magnitude; infinity if an element is not a number. */
double operands_largest(enum data_type type, const void *data, uint64_t count);

struct agreement { /* how far two results may differ, before they are rounded for storage */
    enum data_type type;
    double bound; /* 0: they must be equal */
};
/* |is_winograd|: one of the results was computed with transforms.  |largest|: the product of the
 * operands' largest magnitudes; 0: the operands are OPERANDS_EXACT. */
struct agreement agreement_of(const struct problem *problem, bool is_winograd, double largest);

struct disagreement {
    uint64_t count; /* elements that differ too much */
    uint64_t first; /* index of the first such element */
    double got, want;
};
struct disagreement operands_compare(const struct agreement *agreement, const void *got,
                                     const void *want, uint64_t count);
