/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvDirectNarrow: backward data for groups with few channels of x, and forward for groups with
 * few channels of y, without a matrix product (kernels/conv_direct_narrow.cl).  Backward data of
 * the first layer of an image network is the typical case: its matrix product would have only three
 * rows.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_direct_narrow;
