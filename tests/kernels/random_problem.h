/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Random convolutions.
 *
 * Threading  pure function of the state
 */
#include "common/protocol/problem.h"

/* A valid, difficult problem of |direction|: odd sizes, images one pixel wide, pads and strides
 * larger than the filter, patches, dilation, groups, depthwise, mixed layouts, all types.  It is so
 * small that the reference takes no noticeable time. */
struct problem random_problem(uint64_t *state, enum direction direction);
/* A layer as in real networks, with more channels and larger images: for tests that only compile.
 */
struct problem random_layer(uint64_t *state, enum direction direction);
