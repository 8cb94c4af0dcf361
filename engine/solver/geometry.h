/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sizes as kernels and launches need them.
 *
 * Threading  pure functions
 */
#include "common/problem.h"

/* Whether filters with their dilation, and inputs with their pads and a stride, are shorter than
 * 2^30: kernels count coordinates of the padded input in 32 bits, with a sign. */
bool geometry_fits_30_bits(const struct problem *p);

/* Elements of the tensor that a problem's direction computes. */
uint64_t geometry_output_elements(const struct problem *p);

static inline uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
