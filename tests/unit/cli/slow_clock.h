/* SPDX-License-Identifier: MIT */
#pragma once

/* A clock for tests of printed progress. Each call advances it by a second, because no progress is
 * printed for brief work. Needs -Wl,--wrap=clock_monotonic_ns. Only one file may include this
 * header. */
#include <stdint.h>

uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    static uint64_t now_ns;
    return now_ns += 1000000000u;
}
