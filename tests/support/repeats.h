/* SPDX-License-Identifier: MIT */
#pragma once

/* How often a test repeats a random damage or a kill. CTest runs a sample; scripts/test-damage runs
 * many times as many. */
#include <stdlib.h>

#define TEST_REPEATS "KILN_TEST_REPEATS"

/* Returns |usual|, times the number in the environment variable if it is set. */
static inline unsigned test_repeats(unsigned usual)
{
    const char *times = getenv(TEST_REPEATS);
    return times ? usual * (unsigned)strtoul(times, NULL, 10) : usual;
}
