/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Sizes as kernels need them.
 *
 * Threading  pure functions
 */
#include "common/problem.h"

/* Whether filters with their dilation, and inputs with their pads and a stride, are shorter than
 * 2^30: kernels count coordinates of the padded input in 32 bits, with a sign. */
bool geometry_fits_30_bits(const struct problem *p);
