/* SPDX-License-Identifier: MIT */
#pragma once

/* A clock that does not depend on the machine, for tests of work that ends after some time. */
#include <stdint.h>

/* Each reading of the monotonic clock then advances it by |ns|. 0 restores the real clock. */
void step_clock(uint64_t ns);
