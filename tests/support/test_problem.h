/* SPDX-License-Identifier: MIT */
#pragma once

/* A small convolution, in the engine's form. */
#include "common/protocol/problem.h"

/* Problems with different |n| differ. */
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
