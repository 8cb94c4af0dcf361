/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sizes as kernels and launches need them.
 *
 * Threading  pure functions
 */
#include "common/problem.h"
#include "common/target.h"

/* Whether filters with their dilation, and inputs with their pads and a stride, are shorter than
 * 2^30: kernels count coordinates of the padded input in 32 bits, with a sign. */
bool geometry_fits_30_bits(const struct problem *p);

/* Whether |groups| work groups of |items| each, all along x, are one launch: no more groups than
 * 2^31 - 1 (CUDA's bound; kernels count them in 32 bits), on AMD's GPUs no more work items than
 * 2^32 - 1. */
bool geometry_is_launchable(const struct target *target, uint64_t groups, uint64_t items);

/* From a tap of the filter to the next one that meets the same pixels of x modulo the stride. */
uint32_t geometry_tap_step(uint32_t stride, uint32_t dilation);

/* Elements of the tensor that a problem's direction computes. */
uint64_t geometry_output_elements(const struct problem *p);

static inline uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
