/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvGrouped: convolutions with few channels in each group, on NVIDIA's matrix cores
 * (kernels/conv_grouped.cl).  It covers all directions, 2-D and 3-D, fp16 and bf16, if the channels
 * of x and y come last.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_grouped;
