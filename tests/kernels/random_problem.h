/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/protocol/problem.h"

/* Returns a valid, difficult problem of any type. The problem may have odd sizes, images one pixel
 * wide, pads and strides larger than the filter, patches, dilation, groups, one channel in each
 * group, and mixed layouts. The problem is so small that the reference takes no noticeable time. */
struct problem random_problem(uint64_t *state, enum direction direction);
/* Returns a problem as in the layers of real networks, with more channels and larger images, for
 * tests that only compile. */
struct problem random_layer(uint64_t *state, enum direction direction);
