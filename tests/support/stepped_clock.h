/* SPDX-License-Identifier: MIT */
#pragma once

/* A clock that does not depend on the machine, for tests of work that ends after some time. */
#include <stdint.h>

/* Makes each reading of the monotonic clock advance it by |ns| from now on; 0 restores the real
 * clock. */
void step_clock(uint64_t ns);
