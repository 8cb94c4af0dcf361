/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Replaces the monotonic clock of a program linked with --wrap=clock_monotonic_ns, so that tests of
 * time limits do not depend on the machine's speed. The clock starts at one hour. A test with its
 * own clock defines __wrap_clock_monotonic_ns instead. */

/* From now on, each reading of the clock advances it by |ns|. Before the first call of step_clock,
 * each reading advances it by 1 ns. */
void step_clock(uint64_t ns);
