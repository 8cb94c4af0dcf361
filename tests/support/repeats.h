/* SPDX-License-Identifier: MIT */
#pragma once

/* How often a test repeats a random damage or a kill: rarely under CTest, more often under
 * scripts/test-damage, which sets KILN_TEST_REPEATS. The address sanitizer makes each round several
 * times slower, so it gets a quarter of them. */
#include <stdlib.h>

#define TEST_REPEATS "KILN_TEST_REPEATS"

#ifdef __SANITIZE_ADDRESS__
#define TEST_REPEATS_FEWER 4u
#else
#define TEST_REPEATS_FEWER 1u
#endif

/* Returns |usual|, multiplied by KILN_TEST_REPEATS if that variable is set, and divided by
 * TEST_REPEATS_FEWER. */
static inline unsigned test_repeats(unsigned usual)
{
    const char *times = getenv(TEST_REPEATS);
    return usual * (times ? (unsigned)strtoul(times, NULL, 10) : 1u) / TEST_REPEATS_FEWER;
}
