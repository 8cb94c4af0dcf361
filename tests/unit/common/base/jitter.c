/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "common/base/jitter.h"

#define HOSTS 1000u
#define MINUTE 60u

TEST(plain, a_pause_becomes_at_most_half_as_long)
{
    for (unsigned i = 0; i < HOSTS; i++)
        assert_in_range(jitter_shorten(1000), 500, 1000);
    assert_int_equal(jitter_shorten(0), 0);
    assert_in_range(jitter_shorten(UINT64_MAX), UINT64_MAX / 2, UINT64_MAX);
}

/* In each second of half a minute, 33 of 1000 hosts are expected. More than 100 of them in one
 * second are so improbable that this never happens. */
TEST(plain, a_thousand_hosts_do_not_come_in_the_same_second)
{
    unsigned in_second[MINUTE + 1] = { 0 };
    for (unsigned i = 0; i < HOSTS; i++)
        in_second[jitter_shorten(MINUTE * 1000) / 1000]++;
    for (unsigned i = 0; i <= MINUTE; i++)
        assert_in_range(in_second[i], 0, 100);
}
