/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Random convolutions.
 *
 * Threading  pure function of the state
 */
#include "common/problem.h"

/* A valid problem of |direction| that looks for trouble: odd sizes, images one pixel wide, pads
 * beyond the filter, strides beyond the filter, dilation, groups, depthwise, mixed layouts, all
 * types; small enough for the reference to be instant. */
struct problem random_problem(uint64_t *state, enum direction direction);
/* A layer as networks have them, for what compiles and is not run: more channels, larger images. */
struct problem random_layer(uint64_t *state, enum direction direction);
