/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Numbers for find and tune: what tensors are filled with, and how far two right results may
 * differ.
 *
 * Ownership  every array is the caller's
 * Threading  pure functions
 */
#include "common/problem.h"

#include <stdbool.h>
#include <stdint.h>

enum operands {
    /* Odd multiples of a power of two, so few bits that 32-bit sums of their products are exact in
     * any order: two right results are equal, to the last bit. */
    OPERANDS_EXACT,
    /* All the bits that the type has, as training has them: what a GPU's power, and with it its
     * clock, depends on. */
    OPERANDS_GENERAL,
};

/* Floats alone: KILN_INT8 has no such data.  All are below 1 in magnitude. */
void operands_fill(enum operands kind, const struct problem *problem, void *data, uint64_t count,
                   uint64_t seed);

/* The largest magnitude; infinity where there is something that is no number. */
double operands_largest(enum data_type type, const void *data, uint64_t count);

struct agreement { /* how far apart two results may be, before they are rounded for storage */
    enum data_type type;
    double bound; /* 0: not at all */
};
/* |is_winograd|: one of them computed with transforms.  |largest|: the product of the operands'
 * largest magnitudes; 0: they are OPERANDS_EXACT. */
struct agreement agreement_of(const struct problem *problem, bool is_winograd, double largest);

struct disagreement {
    uint64_t count; /* of elements */
    uint64_t first; /* of them */
    double got, want;
};
struct disagreement operands_compare(const struct agreement *agreement, const void *got,
                                     const void *want, uint64_t count);
