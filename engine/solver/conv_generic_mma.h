/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvGeneric on matrix cores (kernels/conv_generic_mma.cl): NVIDIA's sm_80 and later, AMD's CDNA
 * and RDNA 3 and 4.
 *
 * Role       the part of ConvGeneric with the tilings for matrix cores
 * Ownership  none
 * Threading  pure functions
 */
#include "engine/solver/conv_generic_parts.h"

#define GENERIC_MMA_TILINGS 3u /* on each target with matrix cores */

/* Returns whether the problem's type and size, and the target, are supported.  The other functions
 * need this.  |p| is a problem to which ConvGeneric applies. */
bool generic_mma_applies(const struct problem *p, const struct target *target);
/* Returns the number of types: 0, 2 (fp16 and bf16) or 3 (also fp32 rounded to TF32). */
uint32_t generic_mma_types(const struct target *target);
struct generic_shape generic_mma_shape(const struct problem *p, const struct target *target,
                                       uint32_t tiling);
uint64_t generic_mma_workspace(const struct problem *p, uint32_t splits);
/* Adds all programs and kernels to an empty solution. */
void generic_mma_solve(const struct problem *p, const struct target *target, uint32_t tiling,
                       uint32_t splits, struct solution *solution);
