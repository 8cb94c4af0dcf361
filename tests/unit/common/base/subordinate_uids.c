/* SPDX-License-Identifier: MIT */
#include "common/base/subordinate_uids.h"

#include "tests/support/subordinate_ranges.h"

TEAR_DOWN_STATIC(tear_down) { set_subordinate_ranges(""); }

FIXTURE_OF(ranges, void, NULL, tear_down);

TEST(ranges, without_ranges_each_uid_is_a_user)
{
    set_subordinate_ranges("");

    assert_true(is_one_user(100000, 100000));
    assert_false(is_one_user(100000, 100001));
}

TEST(ranges, all_uids_of_a_range_are_one_user)
{
    set_subordinate_ranges("ann:100000:65536\n");

    assert_true(is_one_user(100000, 165535));
    assert_false(is_one_user(99999, 100000));
    assert_false(is_one_user(165535, 165536));
}

TEST(ranges, two_ranges_are_two_users_in_whatever_order_the_file_has_them)
{
    set_subordinate_ranges("ben:165536:65536\nann:100000:65536\n1003:300000:10\n");

    assert_true(is_one_user(100000, 100001));
    assert_true(is_one_user(165536, 231071));
    assert_true(is_one_user(300000, 300009));
    assert_false(is_one_user(165535, 165536));
    assert_false(is_one_user(231072, 231073));
}

TEST(ranges, ranges_of_root_count_as_many_users)
{
    set_subordinate_ranges("root:100000:65536\n0:200000:65536\nrooter:300000:65536\n");

    assert_false(is_one_user(100000, 100001));
    assert_false(is_one_user(200000, 200001));
    assert_true(is_one_user(300000, 300001));
}

TEST(ranges, lines_that_are_no_ranges_are_skipped)
{
    set_subordinate_ranges("\n# ann\nann\nann:1\nann:x:5\n:7:9\nann:99999999999:5\nann:100000:10");

    assert_false(is_one_user(1, 2));
    assert_false(is_one_user(5, 6));
    assert_true(is_one_user(100000, 100009));
}

TEST(ranges, a_file_that_is_absent_has_no_ranges)
{
    struct kiln_err err = KILN_ERR_INIT;
    set_subordinate_ranges("ann:100000:65536\n");

    must(subordinate_uids_read("/proc/self/nothing", &err), err);

    assert_false(is_one_user(100000, 100001));
}

TEST(ranges, a_file_that_cannot_be_read_is_an_error_that_names_it)
{
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(subordinate_uids_read("/proc/self", &err), KILN_IO);
    assert_non_null(strstr(err.text, "'/proc/self'"));
}
