/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Pseudo-random numbers that depend only on a seed: for test data, never for security.
 *
 * Threading  pure functions
 */
#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014), which works well with any seed. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
