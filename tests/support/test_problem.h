/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/protocol/problem.h"

/* Returns a small convolution. Different |n| give different problems. */
static inline struct problem test_problem(uint32_t n)
{
    return (struct problem){ .direction = DIRECTION_FORWARD,
                             .spatial_dims = 2,
                             .n = n,
                             .c = 4,
                             .k = 8,
                             .groups = 1,
                             .in = { 1, 8, 8 },
                             .filter = { 1, 3, 3 },
                             .pad = { 0, 1, 1 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
}
