/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/exposition.h"
#include "tests/support/test.h"

#include <string.h>

TEST(plain, a_bucket_ends_with_its_power_of_two)
{
    static const struct {
        uint64_t ns;
        unsigned bucket;
    } cases[] = {
        { 0, 0 },
        { 1, 0 },
        { 2, 1 },
        { 3, 2 },
        { 4, 2 },
        { 5, 3 },
        { 1024, 10 },
        { 1025, 11 },
        { UINT64_C(1) << 42, 42 },
        { (UINT64_C(1) << 42) + 1, 43 },
        { UINT64_MAX, 43 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(histogram_bucket(cases[i].ns), cases[i].bucket);
}

TEST(plain, observations_of_a_histogram_are_counted_once_and_summed)
{
    struct histogram h = { 0 };
    histogram_observe(&h, 3, 1);
    histogram_observe(&h, 1000, 1);
    histogram_observe(&h, UINT64_C(1) << 50, 1);
    histogram_observe(&h, 100, 5);

    assert_int_equal(histogram_at_most(&h, 1), 0);
    assert_int_equal(histogram_at_most(&h, 2), 1);
    assert_int_equal(histogram_at_most(&h, 7), 6);
    assert_int_equal(histogram_at_most(&h, 10), 7);
    assert_int_equal(histogram_count(&h), 8);
    assert_int_equal(h.sum_ns, 3 + 1000 + (UINT64_C(1) << 50) + 500);
}

static void assert_text(struct buffer *out, const char *text)
{
    buffer_put_u8(out, '\0');
    assert_false(out->failed);
    assert_string_equal((const char *)out->data, text);
    out->size = 0;
}

TEST(plain, a_metric_family_begins_with_help_and_type)
{
    BUFFER_AUTO struct buffer out;
    buffer_init(&out, 10000);
    const struct metric m = { "kiln_things_total", METRIC_COUNTER, "", "Things, all of them" };
    exposition_begin(&out, &m);
    exposition_number(&out, &m, NULL, UINT64_MAX);
    assert_text(&out, "# HELP kiln_things_total Things, all of them\n"
                      "# TYPE kiln_things_total counter\n"
                      "kiln_things_total 18446744073709551615\n");
}

TEST(plain, characters_that_end_a_line_or_a_value_are_escaped)
{
    BUFFER_AUTO struct buffer out;
    buffer_init(&out, 10000);
    const struct metric m = { "m", METRIC_GAUGE, "first second", "a \\ and\na \"line\"" };
    static const char *const values[] = { "C:\\dir\n\"x\"", "" };
    exposition_begin(&out, &m);
    exposition_number(&out, &m, values, 7);
    assert_text(&out, "# HELP m a \\\\ and\\na \"line\"\n"
                      "# TYPE m gauge\n"
                      "m{first=\"C:\\\\dir\\n\\\"x\\\"\",second=\"\"} 7\n");
}

TEST(plain, seconds_are_exact_and_short)
{
    BUFFER_AUTO struct buffer out;
    buffer_init(&out, 10000);
    const struct metric m = { "m_seconds_total", METRIC_COUNTER, "", "" };
    static const struct {
        uint64_t micros;
        const char *text;
    } cases[] = { { 0, "m_seconds_total 0\n" },
                  { 1, "m_seconds_total 0.000001\n" },
                  { 1500000, "m_seconds_total 1.5\n" },
                  { 20000000, "m_seconds_total 20\n" },
                  { 12345678901, "m_seconds_total 12345.678901\n" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        exposition_micros(&out, &m, NULL, cases[i].micros);
        assert_text(&out, cases[i].text);
    }
}

TEST(plain, a_histogram_has_its_buckets_its_sum_and_its_count)
{
    BUFFER_AUTO struct buffer out;
    buffer_init(&out, 10000);
    const struct metric m = { "m_seconds", METRIC_HISTOGRAM, "tier", "" };
    static const char *const tier[] = { "hot" };
    static const struct exposition_range range = { .first = 8, .last = 12, .step = 2 };
    struct histogram h = { 0 };
    histogram_observe(&h, 256, 1);
    histogram_observe(&h, 1000, 2);
    histogram_observe(&h, 5000000000, 1);
    exposition_histogram(&out, &m, tier, &h, &range);
    assert_text(&out, "m_seconds_bucket{tier=\"hot\",le=\"0.000000256\"} 1\n"
                      "m_seconds_bucket{tier=\"hot\",le=\"0.000001024\"} 3\n"
                      "m_seconds_bucket{tier=\"hot\",le=\"0.000004096\"} 3\n"
                      "m_seconds_bucket{tier=\"hot\",le=\"+Inf\"} 4\n"
                      "m_seconds_sum{tier=\"hot\"} 5.000002256\n"
                      "m_seconds_count{tier=\"hot\"} 4\n");
}

TEST(plain, buckets_of_a_histogram_without_labels_have_only_their_bound)
{
    BUFFER_AUTO struct buffer out;
    buffer_init(&out, 10000);
    const struct metric m = { "m", METRIC_HISTOGRAM, "", "" };
    static const struct exposition_range range = { .first = 30, .last = 30, .step = 1 };
    const struct histogram h = { .sum_ns = 0 };
    exposition_histogram(&out, &m, NULL, &h, &range);
    assert_text(&out, "m_bucket{le=\"1.073741824\"} 0\nm_bucket{le=\"+Inf\"} 0\nm_sum 0\nm_count "
                      "0\n");
}
