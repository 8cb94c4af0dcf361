/* SPDX-License-Identifier: MIT */
#pragma once

/* A clock that does not depend on the machine, for tests of work that ends after some time. */
#include <stdint.h>

/* From now on, each reading of the monotonic clock advances it by |ns|; 0: the real clock is
 * used. */
void step_clock(uint64_t ns);
