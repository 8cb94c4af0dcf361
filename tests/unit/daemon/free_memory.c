/* SPDX-License-Identifier: MIT */
#include "daemon/free_memory.h"

#include "tests/support/test.h"

#define MIB (1u << 20)

static unsigned trims;
WRAP(int, malloc_trim, size_t pad)
{
    (void)pad;
    trims++;
    return 1;
}

SET_UP_OF(set_up, struct free_memory) { trims = 0; }

FIXTURE_OF(free_memory, struct free_memory, set_up, NULL);

TEST_F(free_memory, memory_is_returned_once_at_the_end_of_a_burst)
{
    for (unsigned second = 0; second < 5; second++)
        free_memory_tick(f, 200 * MIB, 100 * MIB);
    assert_int_equal(trims, 0);

    for (unsigned second = 0; second < 5; second++)
        free_memory_tick(f, 0, 0);
    assert_int_equal(trims, 1);
}

TEST_F(free_memory, memory_is_returned_after_a_burst_between_two_calls)
{
    free_memory_tick(f, 200 * MIB, 0);
    assert_int_equal(trims, 1);
}

TEST_F(free_memory, small_requests_return_no_memory)
{
    for (unsigned second = 0; second < 5; second++)
        free_memory_tick(f, 2 * MIB, 0);
    assert_int_equal(trims, 0);
}
