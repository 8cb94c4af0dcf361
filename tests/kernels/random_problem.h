/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Random convolutions that look for trouble: odd sizes, images one pixel wide, pads beyond the
 * filter, strides beyond the filter, dilation, groups, depthwise, mixed layouts, all types.
 *
 * Threading  pure function of the state
 */
#include "common/problem.h"

/* A valid problem of |direction|, small enough for the reference to be instant. */
struct problem random_problem(uint64_t *state, enum direction direction);
