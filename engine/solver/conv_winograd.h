/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvWinograd: 3x3 convolutions of stride and dilation 1, by Winograd's minimal filtering
 * (kernels/conv_winograd.cl).  It solves 2-D problems in all directions, in tiles of 2x2 or 4x4
 * outputs.  Types are fp32, fp16 and bf16; the arithmetic is always fp32.
 *
 * Transformed tensors go through a workspace.  The products between the transforms are one grouped
 * 1x1 convolution, which ConvImplicitGemm's vector path solves; the axes of the vector path are
 * part of this solver's tuning space.  The batch size is not compiled into any program.
 *
 * The solver's intermediate values are larger than those of direct convolution, so the rounding
 * errors are larger, too.  cli/driver/rounding.c derives a bound for them.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_winograd;
