/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sizes of problems, as kernels and launches need them.
 *
 * Threading  pure functions
 */
#include "common/protocol/problem.h"
#include "common/target/target.h"

/* Kernels compute coordinates of the padded input in signed 32-bit integers.  So the dilated
 * filter, and the padded input plus one stride, must be shorter than 2^30 along each axis. */
bool geometry_fits_30_bits(const struct problem *p);

/* Returns whether |groups| work groups of |items| items, all along x, fit one launch.  CUDA and the
 * kernels' 32-bit counters allow 2^31 - 1 groups; AMD's GPUs also limit a launch to 2^32 - 1
 * items. */
bool geometry_is_launchable(const struct target *target, uint64_t groups, uint64_t items);

/* Returns stride / gcd(stride, dilation): the distance from a tap to the next one that meets the
 * same residue class of x modulo the stride. */
uint32_t geometry_tap_step(uint32_t stride, uint32_t dilation);

/* Returns the elements of the tensor that the problem's direction computes. */
uint64_t geometry_output_elements(const struct problem *p);

static inline uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
