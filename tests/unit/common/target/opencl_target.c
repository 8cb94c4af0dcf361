/* SPDX-License-Identifier: MIT */
#include "common/target/opencl_target.h"

#include "tests/support/test.h"

#include <string.h>

static void expect_text(const struct opencl_names *names, const char *begin)
{
    char text[LIMIT_TARGET_TEXT];
    opencl_target_text(names, text);
    if (strncmp(text, begin, strlen(begin)) != 0)
        fail_msg("'%s' does not begin with '%s'", text, begin);
    assert_int_equal(strlen(text), strlen(begin) + 16); /* plus the hash */
    assert_int_equal(strspn(text + strlen(begin), "0123456789abcdef"), 16);
}

TEST(plain, characters_not_allowed_in_an_opencl_target_become_one_dash)
{
    expect_text(&(struct opencl_names){ .platform_name = "A (Platform)!",
                                        .device_name = " cpu--x,\t\xc3\xa9_1.0+ ",
                                        .driver_version = "3.1" },
                "opencl:cpu--x-_1.0+:A-Platform-3.1-");
}

TEST(plain, an_opencl_device_name_without_letters_becomes_a_dash)
{
    expect_text(&(struct opencl_names){ .device_name = "", .driver_version = "???" },
                "opencl:-:----");
}

TEST(plain, long_opencl_names_are_cut_and_differ_by_a_hash)
{
    char longer[300], other[300], one[LIMIT_TARGET_TEXT], two[LIMIT_TARGET_TEXT];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    strcpy(other, longer);
    other[250] = 'y';
    opencl_target_text(&(struct opencl_names){ longer, longer, longer, longer, longer }, one);
    opencl_target_text(&(struct opencl_names){ longer, longer, other, longer, longer }, two);
    assert_true(strlen(one) < LIMIT_TARGET_TEXT - 1);
    assert_int_equal(strlen(one), strlen(two));
    assert_string_not_equal(one, two);
    assert_memory_equal(one, two, strlen(one) - 16);
}
