/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvGrouped: convolutions with few channels a group on NVIDIA's matrix cores
 * (kernels/conv_grouped.cl).  All directions, 2-D and 3-D, fp16 and bf16; x and y channels-last.
 *
 * Several groups are multiplied like one, with zeros between them.  Neither the batch size nor the
 * number of parts that a weight's sum is split into belongs to a program.
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_grouped;
