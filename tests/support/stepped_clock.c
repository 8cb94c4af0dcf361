/* SPDX-License-Identifier: MIT */
#include "tests/support/stepped_clock.h"

static uint64_t step_ns = 1, now_ns = 3600000000000;

__attribute__((weak)) uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void) { return now_ns += step_ns; }

void step_clock(uint64_t ns) { step_ns = ns; }
