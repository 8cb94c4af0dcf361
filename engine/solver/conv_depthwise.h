/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvDepthwise: convolutions with one input channel in each group (kernels/conv_depthwise.cl).
 * It covers all directions, 2-D and 3-D, fp32, fp16 and bf16, if x and y have the same layout.
 *
 * Neither the batch size nor the number of partial sums of a weight is compiled into a program, so
 * changing them requires no compilation.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_depthwise;
