/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* From now on, each reading of the monotonic clock advances it by |ns|, so that tests of time
 * limits do not depend on the machine's speed. 0 restores the real clock. */
void step_clock(uint64_t ns);
