/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvDirectNaive: any convolution, straight from its definition (kernels/conv_direct_naive.cl).
 * The solver that always applies; others are measured against it.
 *
 * The batch size is no part of the program, so a job that changes it compiles nothing.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_direct_naive;
