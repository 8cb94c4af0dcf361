/* SPDX-License-Identifier: MIT */

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

/* Imports a file |name| that has a bad line between two good ones. Only the bad line must be
 * left out and reported. */
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
        { NINE, "ConvA:1,0,direct", "'direct'" },
        { NINE, "ConvA:1,0," BWD, "for this direction" },
        { NINE, "Conv A:1,0," DIRECT, "'Conv A'" },
        { NINE, "ConvA:1,0," DIRECT ";Conv/B:2,0," DIRECT, "'Conv/B'" },
        { NINE, "direct:ConvA,1,0,direct,<unused>", "'direct'" },
        { NINE, BWD ":ConvA,1,0," BWD ",<unused>", "for this direction" },
        { NINE, DIRECT ":Conv A,1,0," DIRECT ",<unused>", "'Conv A'" },
        { BIASED, "Conv A:1,0,direct", "'Conv A'" },
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
        { "other", "Conv A:1", "'Conv A'" },
        { PERF_KEY_OF(9, 0), "Conv A:1", "'Conv A'" },
        { PERF_KEY_OF(9, 0), "ConvA:1;Conv$B:", "'Conv$B'" },
        { PERF_KEY_OF(9, 1), "Conv A:1", "'Conv A'" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_bad(f, "gfx90a68.db.txt", TUNING_TIER_SYSTEM, &bad[i], good);
        expect_bad(f, "gfx90a68_1.1.0.udb.txt", TUNING_TIER_USER, &bad[i], good);
    }
}

/* The first two keys are from AMD's system databases. The next two are from parts of MIOpen that
 * have separate databases. Later versions may have keys like the last two. */
TEST_F(facade, a_line_whose_key_is_not_understood_is_kept_word_for_word)
{
    static const struct {
        const char *name, *key, *value;
    } kept[] = {
        { "gfx803_64.HIP.fdb.txt", "1024-14-14-4-1x1x1-2048-7-7-2-4-0x0-2x2x2-1x1x1-0-NCHW-FP32-F",
          DIRECT ":GemmFwdRest,23.3251,401408,rocBlas,<unused>" },
        { "gfx1030_36.db.txt", "2x1024x-5x-5x1x7x7x1x256x400x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xB",
          "ConvA:1,2" },
        { "gfx90a68.HIP.3_2_0_36bb7fd4a.fusion.ufdb.txt",
          "64, 64, 56, 56FP3264, 64, 56, 56FP3264x56x56x3x3", "ConvBiasActivAsm1x1U:0.2,0,fusion" },
        { "batchnorm_gfx90a68.HIP.3_2_0_36bb7fd4a.udb.txt",
          "2x64x128x56x56x1x0x1x0xNCHWxTrnxFP32x1", "BnFwdTrainingSpatial:1,0" },
        { "gfx906_60.HIP.fdb.txt", "other", "ConvA:1,0,direct" },
        { "gfx906_64.HIP.fdb.txt", "64-56-56-3x3-64-56-56-9-1x1-1x1-1x1-0-NCHW-FP32-X",
          "ConvA:1,0," DIRECT },
    };
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        char line[400];
        snprintf(line, sizeof(line), "%s=%s\n", kept[i].key, kept[i].value);
        for (enum tuning_tier tier = TUNING_TIER_SYSTEM; tier <= TUNING_TIER_USER; tier++) {
            must(import_text(f, kept[i].name, tier, ALICE, line), f->err);
            assert_int_equal(f->counts.bad, 0);
            assert_int_equal(f->counts.verbatim, 1);
            assert_string_equal(
                export_text(f, kept[i].name, (struct tuning_export){ .tier = tier, .uid = ALICE }),
                line);
        }
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
