/* SPDX-License-Identifier: MIT */
#pragma once

/* A clock that does not depend on the machine, for tests of work that ends after 1 ms. */
#include <stdint.h>

/* From now on, each look at the monotonic clock advances it by |ns|; 0: it is the real one. */
void step_clock(uint64_t ns);
