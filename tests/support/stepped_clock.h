/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/*
 * Replaces the monotonic clock of a program linked with --wrap=clock_monotonic_ns, so that tests of
 * time limits do not depend on the machine's speed. The clock begins at an hour. A test with a
 * clock of its own defines __wrap_clock_monotonic_ns.
 */

/* From now on, each reading advances the clock by |ns|: until the first call, by 1. */
void step_clock(uint64_t ns);
