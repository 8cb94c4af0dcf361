/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"

#include <time.h>

uint64_t clock_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_wall_s(void) { return (uint64_t)time(NULL); }
