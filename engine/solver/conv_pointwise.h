/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvPointwise: forward and backward data of 1x1 convolutions that read or compute few channels,
 * with channels first (kernels/conv_pointwise.cl).
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_pointwise;
