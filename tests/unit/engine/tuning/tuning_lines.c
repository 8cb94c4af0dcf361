/* SPDX-License-Identifier: MIT */

/* Reports of an import about invalid lines. */
#include "facade_fixture.h"

#include <stdio.h>

#define SYSTEM "gfx90a68.HIP.fdb.txt"
#define USER_FILE "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"
#define OTHER KEY_OF_BATCH(2)
#define NINE KEY_OF_BATCH(9)
#define BIASED "64-56-56-3x3-64-56-56-9-1x1-1x1-1x1-1-NCHW-FP32-F"
#define DIRECT "miopenConvolutionFwdAlgoDirect"
#define BWD "miopenConvolutionBwdDataAlgoDirect"

struct bad_line {
    const char *key, *value, *says;
};

/* A bad line between two good ones, in the file |name|. */
static void expect_bad(struct fixture *f, const char *name, enum tuning_tier tier,
                       const struct bad_line *bad, const char *const good[2])
{
    char text[2000];
    bool is_find = strstr(name, "fdb") != NULL;
    const char *value = is_find ? "ConvA:1,0," DIRECT : "ConvA:1";
    struct tuning_question question =
        is_find ? find_question(ALICE, bad->key) : perf_question(ALICE, bad->key);
    struct tuning_answer answer;
    snprintf(text, sizeof(text), "%s=%s\n%s=%s\n%s=%s\n", good[0], value, bad->key, bad->value,
             good[1], value);

    must(import_text(f, name, tier, ALICE, text), f->err);

    assert_int_equal(f->counts.records, 2);
    assert_int_equal(f->bad, 1);
    assert_int_equal(f->bad_line, 2);
    assert_says(f->bad_why, bad->says);
    assert_string_equal(value_for(f, &question, &answer), "");
    question.key = bytes_of_text(good[1]);
    assert_string_equal(value_for(f, &question, &answer), value);
}

TEST_F(facade, an_invalid_find_line_is_reported_and_not_stored)
{
    static const char *const good[2] = { KEY, OTHER };
    static const struct bad_line bad[] = {
        { "other", "ConvA:1,0," DIRECT, "FindDb key, column 1: " },
        { "64-56-56-3x3-64-56-56-9-1x1-1x1-1x1-0-NCHW-FP32", "ConvA:1,0," DIRECT, "FindDb key" },
        { "64-56-56-3x3-64-56-56-9-1x1-1x1-1x1-0-NCHW-FP32-X", "ConvA:1,0," DIRECT,
          "direction 'X'" },
        { PERF_KEY, "ConvA:1,0," DIRECT, "FindDb key" },
        { NINE, "ConvA:1,0,direct", "'direct'" },
        { NINE, "ConvA:1,0," BWD, "for this direction" },
        { NINE, "Conv A:1,0," DIRECT, "'Conv A'" },
        { NINE, "ConvA:1,0," DIRECT ";Conv/B:2,0," DIRECT, "'Conv/B'" },
        { NINE, "direct:ConvA,1,0,direct,<unused>", "'direct'" },
        { NINE, BWD ":ConvA,1,0," BWD ",<unused>", "for this direction" },
        { NINE, DIRECT ":Conv A,1,0," DIRECT ",<unused>", "'Conv A'" },
        { BIASED, "ConvA:1,0,direct", "'direct'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_bad(f, SYSTEM, TUNING_TIER_SYSTEM, &bad[i], good);
        expect_bad(f, USER_FILE, TUNING_TIER_USER, &bad[i], good);
    }
}

TEST_F(facade, an_invalid_perf_line_is_reported_and_not_stored)
{
    static const char *const good[2] = { PERF_KEY, PERF_KEY_OF(2, 0) };
    static const struct bad_line bad[] = {
        { "other", "ConvA:1", "PerfDb key, column 1: " },
        { "2x64x56x56x1x3x3x1x64x9", "ConvA:1", "PerfDb key" },
        { "2x64x56x56x1x3x3x1x64x9x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xX", "ConvA:1", "direction" },
        { "64-56-56-3x3-64-56-56-9-1x1-1x1-1x1-0-NCHW-FP32-X", "ConvA:1", "PerfDb key" },
        { PERF_KEY_OF(9, 0), "Conv A:1", "'Conv A'" },
        { PERF_KEY_OF(9, 0), "ConvA:1;Conv$B:", "'Conv$B'" },
        { PERF_KEY_OF(9, 1), "Conv A:1", "'Conv A'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_bad(f, "gfx90a68.db.txt", TUNING_TIER_SYSTEM, &bad[i], good);
        expect_bad(f, "gfx90a68_1.1.0.udb.txt", TUNING_TIER_USER, &bad[i], good);
    }
}

TEST_F(facade, a_merge_reports_bad_lines_as_an_import_does)
{
    must(merge_text(f, USER_FILE, TUNING_TIER_USER, ALICE,
                    KEY "=ConvA:1,0," DIRECT "\n" OTHER "=ConvA:1,0," BWD "\n"),
         f->err);

    assert_int_equal(f->bad, 1);
    assert_int_equal(f->bad_line, 2);
    assert_string_equal(find_value(f, ALICE, OTHER), "");
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0," DIRECT);
}
