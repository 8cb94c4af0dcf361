/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A clock for tests of printed progress: a second passes at each call, because brief work prints
 * none.
 *
 * Role       defines the wrapper that -Wl,--wrap=clock_monotonic_ns needs; include it in one file
 * Threading  one thread
 */
#include <stdint.h>

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    static uint64_t now_ns;
    return now_ns += 1000000000u;
}
