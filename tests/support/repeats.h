/* SPDX-License-Identifier: MIT */
#pragma once

/* How often a test repeats a random damage or a kill. With CTest, a test makes few repeats.
 * scripts/test-damage sets KILN_TEST_REPEATS, so that it makes many times as many. */
#include <stdlib.h>

#define TEST_REPEATS "KILN_TEST_REPEATS"

/* Returns |usual|, multiplied by the number in TEST_REPEATS if this variable is set. */
static inline unsigned test_repeats(unsigned usual)
{
    const char *times = getenv(TEST_REPEATS);
    return times ? usual * (unsigned)strtoul(times, NULL, 10) : usual;
}
