/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvDirectNaive: any convolution, computed directly from its definition
 * (kernels/conv_direct_naive.cl).  The solver applies to every problem except int8 and is the
 * reference for other solvers.
 *
 * The batch size is not compiled into the program, so a job that changes it needs no compilation.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_direct_naive;
