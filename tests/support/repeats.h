/* SPDX-License-Identifier: MIT */
#pragma once

/* How often a test repeats a random damage or a kill. Under CTest the number is small.
 * scripts/test-damage multiplies the number by setting KILN_TEST_REPEATS. */
#include <stdlib.h>

#define TEST_REPEATS "KILN_TEST_REPEATS"

/* Returns |usual|, multiplied by the number in TEST_REPEATS if this variable is set. */
static inline unsigned test_repeats(unsigned usual)
{
    const char *times = getenv(TEST_REPEATS);
    return times ? usual * (unsigned)strtoul(times, NULL, 10) : usual;
}
