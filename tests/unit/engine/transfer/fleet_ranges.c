/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "engine/transfer/fleet_ranges.h"

#include <stdio.h>
#include <string.h>

static struct fleet_request request_of(const char *name, uint64_t offset, uint64_t size)
{
    struct fleet_request request = { .offset = offset, .size = size };
    snprintf(request.name, sizeof(request.name), "%s", name);
    return request;
}

static void expect_range(const struct fleet_range *range, uint64_t first, uint64_t end,
                         size_t count)
{
    assert_int_equal(range->first, first);
    assert_int_equal(range->end, end);
    assert_int_equal(range->count, count);
}

TEST(plain, near_ranges_of_one_file_are_joined)
{
    struct fleet_request requests[] = { request_of("a", 5000, 100), request_of("a", 0, 100),
                                        request_of("a", 100, 50) };
    fleet_ranges_sort(requests, 3);
    struct fleet_range range = fleet_ranges_first(requests, 3);
    expect_range(&range, 0, 5100, 3);
}

TEST(plain, distant_ranges_are_not_joined)
{
    struct fleet_request requests[] = { request_of("a", 0, 100),
                                        request_of("a", 101 + FLEET_GAP_MAX, 100) };
    fleet_ranges_sort(requests, 2);
    struct fleet_range range = fleet_ranges_first(requests, 2);
    expect_range(&range, 0, 100, 1);
    range = fleet_ranges_first(requests + 1, 1);
    expect_range(&range, 101 + FLEET_GAP_MAX, 201 + FLEET_GAP_MAX, 1);
}

TEST(plain, ranges_of_different_files_are_not_joined)
{
    struct fleet_request requests[] = { request_of("b", 0, 100), request_of("a", 100, 100) };
    fleet_ranges_sort(requests, 2);
    struct fleet_range range = fleet_ranges_first(requests, 2);
    assert_string_equal(range.requests->name, "a");
    assert_int_equal(range.count, 1);
}

TEST(plain, requests_for_a_whole_file_are_not_joined)
{
    struct fleet_request requests[] = { request_of("a", 10, 10), request_of("a", 0, 0),
                                        request_of("a", 0, 0) };
    fleet_ranges_sort(requests, 3);
    struct fleet_range range = fleet_ranges_first(requests, 3);
    expect_range(&range, 0, 0, 1);
    range = fleet_ranges_first(requests + 2, 1);
    expect_range(&range, 10, 20, 1);
}

TEST(plain, the_same_range_is_requested_once)
{
    struct fleet_request requests[] = { request_of("a", 7, 10), request_of("a", 7, 10),
                                        request_of("a", 8, 2) };
    fleet_ranges_sort(requests, 3);
    struct fleet_range range = fleet_ranges_first(requests, 3);
    expect_range(&range, 7, 17, 3);
}

TEST(plain, a_joined_range_stays_below_its_limit)
{
    struct fleet_request requests[] = { request_of("a", 0, FLEET_RANGE_MAX),
                                        request_of("a", FLEET_RANGE_MAX, 1) };
    fleet_ranges_sort(requests, 2);
    struct fleet_range range = fleet_ranges_first(requests, 2);
    expect_range(&range, 0, FLEET_RANGE_MAX, 1);
}

TEST(plain, a_range_beyond_64_bits_ends_at_the_last_byte)
{
    struct fleet_request requests[] = { request_of("a", UINT64_MAX - 5, 10) };
    struct fleet_range range = fleet_ranges_first(requests, 1);
    expect_range(&range, UINT64_MAX - 5, UINT64_MAX, 1);
}
