/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvDepthwise: convolutions of which every group holds one input channel
 * (kernels/conv_depthwise.cl).  All directions, 2-D and 3-D, fp32, fp16, bf16; x and y of one
 * layout.
 *
 * Neither the batch size nor the number of parts that a weight's sum is split into belongs to a
 * program.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_depthwise;
