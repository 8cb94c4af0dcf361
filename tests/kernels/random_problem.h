/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/protocol/problem.h"

/* Returns a valid, unusual problem of any type. It may have odd sizes, images one pixel wide, pads
 * and strides larger than the filter, filters that do not overlap, dilation, groups of one channel,
 * and mixed layouts. It is so small that the reference takes no noticeable time. */
struct problem random_problem(uint64_t *state, enum direction direction);
/* Returns a problem like a real network's layer, with more channels and larger images. For tests
 * that only compile. */
struct problem random_layer(uint64_t *state, enum direction direction);
