/* SPDX-License-Identifier: MIT */
#include "common/base/units.h"
#include "tests/support/test.h"

#include <string.h>

static uint64_t size_of(const char *text)
{
    uint64_t bytes = UINT64_MAX;
    return units_parse_size(text, &bytes) ? bytes : UINT64_MAX;
}

static uint64_t time_of(const char *text)
{
    uint64_t ms = UINT64_MAX;
    return units_parse_time(text, &ms) ? ms : UINT64_MAX;
}

TEST(plain, sizes_are_read_with_binary_and_decimal_units)
{
    assert_int_equal(size_of("0"), 0);
    assert_int_equal(size_of("4096"), 4096);
    assert_int_equal(size_of("64K"), 65536);
    assert_int_equal(size_of("1.5M"), 1572864);
    assert_int_equal(size_of("2GiB"), 2147483648u);
    assert_int_equal(size_of("20G"), 21474836480u);
    assert_int_equal(size_of("20GB"), 20000000000u);
    assert_int_equal(size_of("3MB"), 3000000);
    assert_int_equal(size_of("3kB"), 3000);
    assert_int_equal(size_of("1.25TB"), 1250000000000u);
    assert_int_equal(size_of("1024TiB"), 1ull << 50);
    assert_int_equal(size_of("7B"), 7);
}

TEST(plain, sizes_are_read_in_upper_and_lower_case)
{
    assert_int_equal(size_of("5g"), size_of("5G"));
    assert_int_equal(size_of("5gb"), size_of("5GB"));
    assert_int_equal(size_of("5gib"), size_of("5GiB"));
    assert_int_equal(size_of("5KB"), size_of("5kB"));
}

TEST(plain, fractions_of_sizes_are_exact_and_have_six_digits_at_most)
{
    assert_int_equal(size_of("0.1GB"), 100000000);
    assert_int_equal(size_of("1.000001MB"), 1000001);
    assert_int_equal(size_of("1.0000001MB"), UINT64_MAX);
}

TEST(plain, invalid_sizes_are_refused)
{
    static const char *const bad[] = { "",      "K",   "-1",   "1K 1",
                                       "1.2.3", "1X",  "0x10", "1e3",
                                       "inf",   "nan", "1KBs", "9999999999999T",
                                       ".",     " 1",  "1K1",  "99999999999999999999" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(size_of(bad[i]), UINT64_MAX);
}

TEST(plain, times_are_read_as_seconds_or_with_units)
{
    assert_int_equal(time_of("90"), 90000);
    assert_int_equal(time_of("90s"), 90000);
    assert_int_equal(time_of("250ms"), 250);
    assert_int_equal(time_of("1.5h"), 5400000);
    assert_int_equal(time_of("12h"), 43200000);
    assert_int_equal(time_of("30d"), 2592000000u);
    assert_int_equal(time_of("5min"), 300000);
    assert_int_equal(time_of("1d12h"), 129600000);
    assert_int_equal(time_of("1d 12 h"), 129600000);
    assert_int_equal(time_of("2w"), 1209600000);
}

TEST(plain, invalid_times_are_refused)
{
    static const char *const bad[] = { "", "d", "-5s", "5M", "1d12", "5y", "5sm", "1e9w" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(time_of(bad[i]), UINT64_MAX);
}

TEST(plain, numbers_with_other_characters_or_beyond_the_limit_are_refused)
{
    uint64_t number = 7;
    assert_true(units_parse_number("18446744073709551615", UINT64_MAX, &number));
    assert_true(number == UINT64_MAX);
    assert_false(units_parse_number("18446744073709551616", UINT64_MAX, &number));
    assert_false(units_parse_number("6", 5, &number));
    assert_false(units_parse_number("10", 5, &number));
    assert_false(units_parse_number("", 5, &number));
    assert_false(units_parse_number(NULL, 5, &number));
    assert_false(units_parse_number(" 1", 5, &number));
    assert_false(units_parse_number("+1", 5, &number));
    assert_true(number == UINT64_MAX);
    assert_true(units_parse_number("5", 5, &number));
    assert_int_equal(number, 5);
}

TEST(plain, sizes_are_written_in_the_largest_unit)
{
    char text[UNITS_TEXT_MAX];
    assert_string_equal(units_size(0, text), "0 B");
    assert_string_equal(units_size(1023, text), "1023 B");
    assert_string_equal(units_size(1024, text), "1.0 KiB");
    assert_string_equal(units_size(1572864, text), "1.5 MiB");
    assert_string_equal(units_size(1048575, text), "1.0 MiB");
    assert_string_equal(units_size(UINT64_MAX, text), "16.0 EiB");
}

TEST(plain, a_written_setting_is_read_back)
{
    static const char *const sizes[] = { "0",    "1B",   "1023B",  "64KiB",   "1kB",
                                         "3TiB", "20GB", "512MiB", "1025KiB", "100MB" };
    static const char *const times[] = { "0s", "1ms", "1250ms", "90s", "5m", "2h", "7d" };
    char text[UNITS_TEXT_MAX];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_string_equal(units_exact_size(size_of(sizes[i]), text), sizes[i]);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        assert_string_equal(units_exact_time(time_of(times[i]), text), times[i]);
}

TEST(plain, times_are_written_to_three_digits)
{
    char text[UNITS_TEXT_MAX];
    assert_string_equal(units_seconds(0, text), "0 s");
    assert_string_equal(units_seconds(0.0000012345, text), "1.23 us");
    assert_string_equal(units_seconds(0.01234, text), "12.3 ms");
    assert_string_equal(units_seconds(0.99996, text), "1.00 s");
    assert_string_equal(units_seconds(59.97, text), "60.0 s");
    assert_string_equal(units_seconds(125, text), "2 m 05 s");
    assert_string_equal(units_seconds(7500, text), "2 h 05 m");
    assert_string_equal(units_seconds(266400, text), "3 d 02 h");
    assert_string_equal(units_seconds(-1, text), "0 s");
    units_seconds(1e300, text);
    assert_true(strlen(text) < UNITS_TEXT_MAX);
}

TEST(plain, counts_are_grouped_by_thousands)
{
    char text[UNITS_TEXT_MAX];
    assert_string_equal(units_count(0, text), "0");
    assert_string_equal(units_count(999, text), "999");
    assert_string_equal(units_count(148096, text), "148 096");
    assert_string_equal(units_count(UINT64_MAX, text), "18 446 744 073 709 551 615");
    assert_string_equal(units_kernels(0, text), "0 kernels");
    assert_string_equal(units_kernels(1, text), "1 kernel");
    assert_string_equal(units_kernels(148096, text), "148 096 kernels");
}

TEST(plain, a_time_that_is_not_set_is_shown_as_a_dash)
{
    char text[UNITS_TEXT_MAX];
    assert_string_equal(units_when(0, text), "-");
    assert_int_equal(strlen(units_when(1767225600, text)), 16);
    assert_string_equal(units_when(UINT64_MAX >> 1, text), "-");
}

TEST(plain, a_fraction_of_a_second_is_rounded_up)
{
    assert_int_equal(units_whole_seconds(0), 0);
    assert_int_equal(units_whole_seconds(1), 1);
    assert_int_equal(units_whole_seconds(2000), 2);
    assert_true(units_whole_seconds(UINT64_MAX) == UINT64_MAX / 1000 + 1);
}
