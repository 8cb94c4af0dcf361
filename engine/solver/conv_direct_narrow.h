/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvDirectNarrow: backward data for few channels of x in a group, without a matrix product
 * (kernels/conv_direct_narrow.cl).
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_direct_narrow;
