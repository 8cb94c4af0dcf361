/* SPDX-License-Identifier: MIT */
#pragma once

/* How often a test repeats a random damage or a kill: rarely under CTest, more often under
 * scripts/test-damage, which sets KILN_TEST_REPEATS. */
#include <stdlib.h>

#define TEST_REPEATS "KILN_TEST_REPEATS"

/* Returns |usual|, multiplied by KILN_TEST_REPEATS if that variable is set. */
static inline unsigned test_repeats(unsigned usual)
{
    const char *times = getenv(TEST_REPEATS);
    return times ? usual * (unsigned)strtoul(times, NULL, 10) : usual;
}
