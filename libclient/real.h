/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Doubles in the wire format: the bits of a double are sent as a 64-bit integer.
 *
 * Threading  pure functions
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline double real_of_bits(uint64_t bits)
{
    double real;
    memcpy(&real, &bits, sizeof(real));
    return real;
}

static inline uint64_t real_bits(double real)
{
    uint64_t bits;
    memcpy(&bits, &real, sizeof(bits));
    return bits;
}

/* Returns whether |real| can be a time, a spread or a ratio: it must be finite and at least
 * |least|. */
static inline bool real_is_fine(double real, double least)
{
    return real >= least && real <= __DBL_MAX__;
}
