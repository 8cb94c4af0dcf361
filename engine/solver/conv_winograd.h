/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvWinograd: 3x3 convolutions of stride and dilation 1, by Winograd's minimal filtering in tiles
 * of 2x2 or 4x4 outputs (kernels/conv_winograd.cl).  All directions, 2-D; fp32, and fp16 and bf16
 * with fp32 arithmetic.
 *
 * The transforms go through a workspace; the products between them are one grouped 1x1 convolution
 * for ConvImplicitGemm's vector path, whose axes are part of this solver's space.  The batch size
 * belongs to no program.
 *
 * It rounds sums of larger terms than direct convolution does: how much more is derived in
 * cli/driver/rounding.c.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_winograd;
