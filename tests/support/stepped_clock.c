/* SPDX-License-Identifier: MIT */
#include "tests/support/stepped_clock.h"

static uint64_t step_ns, now_ns;

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void)
{
    return step_ns ? (now_ns += step_ns) : __real_clock_monotonic_ns();
}

void step_clock(uint64_t ns)
{
    now_ns = __real_clock_monotonic_ns();
    step_ns = ns;
}
