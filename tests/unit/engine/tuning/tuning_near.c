/* SPDX-License-Identifier: MIT */
#include "facade_fixture.h"

#include "engine/tuning/kin_order.h"

#include <stdio.h>

#define SYSTEM "gfx90a68.HIP.fdb.txt"

static const char *key_of(unsigned size, unsigned batch, const char *words)
{
    static char keys[8][100];
    static unsigned next;
    char *key = keys[next++ % 8];
    snprintf(key, sizeof(keys[0]), "64-%u-%u-3x3-64-%u-%u-%u-1x1-1x1-1x1-0-%s", size, size, size,
             size, batch, words);
    return key;
}

#define USUAL "NCHW-FP32-F"

static void import_keys(struct fixture *f, const char *const *keys, size_t count)
{
    char text[2000] = "";
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "%s=Conv%zu:1,0,miopenConvolutionFwdAlgoDirect\n", keys[i], i);
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, text), f->err);
}
#define IMPORT(f, ...)                                   \
    import_keys(f, (const char *const[]){ __VA_ARGS__ }, \
                sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

static const char *near_value(struct fixture *f, const char *key, struct tuning_answer *ret_answer)
{
    struct tuning_question question = find_question(ALICE, key);
    question.nearest = true;
    return value_for(f, &question, ret_answer);
}

TEST_F(facade, the_nearest_batch_size_answers_and_says_how_far_it_is)
{
    struct tuning_answer answer;
    IMPORT(f, key_of(56, 16, USUAL), key_of(56, 256, USUAL));

    assert_string_equal(near_value(f, key_of(56, 64, USUAL), &answer),
                        "Conv0:1,0,miopenConvolutionFwdAlgoDirect");
    assert_true(answer.is_near);
    assert_true(answer.batch_ratio == 4 && answer.spatial_ratio == 1);
    assert_true(bytes_equal_text(answer.key, key_of(56, 16, USUAL)));
    assert_string_equal(answer.database_id, DEVICE);
    assert_string_equal(near_value(f, key_of(56, 128, USUAL), &answer),
                        "Conv1:1,0,miopenConvolutionFwdAlgoDirect");
    assert_true(answer.batch_ratio == 2);
    assert_int_equal(tuning_stats_of(f->t).near, 2);
}

TEST_F(facade, a_neighbour_answers_only_requests_that_allow_one)
{
    struct tuning_answer answer;
    IMPORT(f, key_of(56, 16, USUAL));

    assert_string_equal(find_value(f, ALICE, key_of(56, 64, USUAL)), "");
    assert_string_equal(near_value(f, key_of(56, 16, USUAL), &answer),
                        "Conv0:1,0,miopenConvolutionFwdAlgoDirect");
    assert_false(answer.is_near);
    assert_true(answer.batch_ratio == 1 && answer.spatial_ratio == 1);
}

TEST_F(facade, another_batch_size_is_nearer_than_another_spatial_size)
{
    struct tuning_answer answer;
    IMPORT(f, key_of(28, 64, USUAL), key_of(56, 1, USUAL));

    assert_string_equal(near_value(f, key_of(56, 64, USUAL), &answer),
                        "Conv1:1,0,miopenConvolutionFwdAlgoDirect");
    assert_true(answer.batch_ratio == 64);
}

TEST_F(facade, the_nearest_spatial_size_wins_before_the_nearest_batch_size)
{
    struct tuning_answer answer;
    IMPORT(f, key_of(14, 64, USUAL), key_of(28, 1, USUAL), key_of(28, 32, USUAL));

    assert_string_equal(near_value(f, key_of(56, 64, USUAL), &answer),
                        "Conv2:1,0,miopenConvolutionFwdAlgoDirect");
    assert_true(answer.spatial_ratio == 4 && answer.batch_ratio == 2);
}

TEST_F(facade, a_record_of_another_type_layout_or_direction_is_no_neighbour)
{
    struct tuning_answer answer;
    IMPORT(f, key_of(56, 16, "NCHW-FP16-F"), key_of(56, 16, "NHWC-NHWC-NHWC-FP32-F"),
           key_of(56, 16, "NCHW-FP32-B"), key_of(56, 16, "NCHW-FP32-F_g2"),
           "64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-1-NCHW-FP32-F");

    assert_string_equal(near_value(f, key_of(56, 64, USUAL), &answer), "");
    assert_int_equal(tuning_stats_of(f->t).misses, 1);
}

TEST_F(facade, the_more_private_of_two_equally_near_records_answers)
{
    struct tuning_answer answer;
    IMPORT(f, key_of(56, 32, USUAL));
    must(put_find(f, THE_HOST, key_of(56, 128, USUAL), "ConvHost",
                  "1,0,miopenConvolutionFwdAlgoDirect"),
         f->err);

    assert_string_equal(near_value(f, key_of(56, 64, USUAL), &answer),
                        "ConvHost:1,0,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(answer.tier, TUNING_TIER_HOST);
    must(
        put_find(f, ALICE, key_of(56, 32, USUAL), "ConvUser", "1,0,miopenConvolutionFwdAlgoDirect"),
        f->err);
    assert_string_equal(near_value(f, key_of(56, 64, USUAL), &answer),
                        "ConvUser:1,0,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(answer.row_count, 1);
    must(put_find(f, THE_HOST, key_of(56, 96, USUAL), "ConvNear",
                  "1,0,miopenConvolutionFwdAlgoDirect"),
         f->err);
    assert_string_equal(near_value(f, key_of(56, 64, USUAL), &answer),
                        "ConvNear:1,0,miopenConvolutionFwdAlgoDirect");
}

TEST_F(facade, a_stale_neighbour_is_ignored_if_stale_entries_are)
{
    struct tuning_answer answer;
    struct measured m = { .tier = TUNING_TIER_USER,
                          .uid = ALICE,
                          .kind = TUNING_FIND,
                          .key = key_of(56, 32, USUAL),
                          .id = "ConvOld",
                          .values = "1,0,miopenConvolutionFwdAlgoDirect",
                          .driver = "6.2" };
    must(put(f, &m), f->err);
    must(put_find(f, ALICE, key_of(56, 16, USUAL), "ConvNew",
                  "2,0,miopenConvolutionFwdAlgoWinograd"),
         f->err);
    f->options.stale = TUNING_IGNORE;
    must(reopen(f), f->err);
    struct tuning_question question = find_question(ALICE, key_of(56, 64, USUAL));
    question.nearest = true;
    question.driver = "6.3";

    assert_string_equal(value_for(f, &question, &answer),
                        "ConvNew:2,0,miopenConvolutionFwdAlgoWinograd");
}

TEST_F(facade, the_nearest_is_sought_in_the_database_of_the_nearest_device_too)
{
    struct tuning_answer answer;
    IMPORT(f, key_of(56, 32, USUAL));
    struct tuning_question question = find_question(ALICE, key_of(56, 64, USUAL));
    question.nearest = true;
    question.database_id = "gfx90a6e";

    assert_string_equal(value_for(f, &question, &answer),
                        "Conv0:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(answer.database_id, "gfx90a68");
}

TEST_F(facade, a_problem_has_the_neighbours_of_its_key)
{
    struct problem problem = problem_of(key_of(56, 64, USUAL));
    struct tuning_question question = find_question(ALICE, "");
    struct tuning_answer answer;
    IMPORT(f, key_of(56, 32, USUAL));
    question.problem = &problem;
    question.nearest = true;

    assert_string_equal(value_for(f, &question, &answer),
                        "Conv0:1,0,miopenConvolutionFwdAlgoDirect");
    question.problem = NULL;
    question.key = bytes_of_text("no problem's");
    assert_string_equal(value_for(f, &question, &answer), "");
}

/* With a stride, several input sizes have the same PerfDb key. Records and questions must assume
 * the same size, or no question finds its neighbours. */
TEST_F(facade, a_strided_backward_problem_has_neighbours_in_a_perf_database)
{
    struct tuning_question question = perf_question(ALICE, "");
    struct tuning_answer answer;
    struct problem problem = problem_of("64-28-28-3x3-32-56-56-16-1x1-2x2-1x1-0-NCHW-FP32-B");
    must(import_text(f, "gfx90a68.db.txt", TUNING_TIER_SYSTEM, 0,
                     "2x64x28x28x1x3x3x1x32x64x1x1x0x2x2x0x1x1x0x0x1xNCHWxFP32xB=ConvA:1\n"),
         f->err);
    must(import_text(f, "gfx90a68.udb.txt", TUNING_TIER_USER, ALICE,
                     "2x64x28x28x1x3x3x1x32x64x1x1x0x2x2x0x1x1x0x0x1xNCHWxFP32xB=ConvB:2\n"),
         f->err);
    question.problem = &problem;
    question.nearest = true;

    assert_string_equal(value_for(f, &question, &answer), "ConvB:2;ConvA:1");
    assert_true(answer.is_near && answer.batch_ratio == 4 && answer.spatial_ratio == 1);
    question.uid = BOB;
    assert_string_equal(value_for(f, &question, &answer), "ConvA:1");
    assert_true(answer.batch_ratio == 4 && answer.spatial_ratio == 1);
}

#define RECORDS 3000u

static unsigned visited;

const struct kin_link *__real_kin_walk_next(struct kin_walk *walk);
const struct kin_link *__wrap_kin_walk_next(struct kin_walk *walk);
const struct kin_link *__wrap_kin_walk_next(struct kin_walk *walk)
{
    visited++;
    return __real_kin_walk_next(walk);
}

static void import_many(struct fixture *f)
{
    KILN_AUTO(mem) char *text = malloc(RECORDS * 160);
    size_t size = 0;
    assert_non_null(text);
    for (unsigned i = 1; i <= RECORDS; i++)
        size += (size_t)sprintf(text + size, "%s=Conv%u:1,0,miopenConvolutionFwdAlgoDirect\n",
                                key_of(56, 2 * i, USUAL), 2 * i);
    must(import_text(f, "gfx90a68.HIP.ufdb.txt", TUNING_TIER_USER, ALICE, text), f->err);
}

TEST_F(facade, a_search_visits_few_of_many_relatives)
{
    struct tuning_answer answer;
    import_many(f);
    visited = 0;

    assert_string_equal(near_value(f, key_of(56, 3001, USUAL), &answer),
                        "Conv3002:1,0,miopenConvolutionFwdAlgoDirect");
    assert_true(visited <= 4);
    assert_string_equal(near_value(f, key_of(14, 4001, USUAL), &answer),
                        "Conv4002:1,0,miopenConvolutionFwdAlgoDirect");
    assert_true(visited <= 12);
}

TEST_F(facade, a_search_skips_a_bounded_number_of_stale_relatives)
{
    struct tuning_answer answer;
    f->options.stale = TUNING_IGNORE;
    must(reopen(f), f->err);
    for (unsigned i = 1; i <= 400; i++) {
        const struct measured m = { .tier = TUNING_TIER_USER,
                                    .uid = ALICE,
                                    .kind = TUNING_FIND,
                                    .key = key_of(56, i, USUAL),
                                    .id = "ConvA",
                                    .values = "1,0,miopenConvolutionFwdAlgoDirect",
                                    .driver = "old",
                                    .samples = 1,
                                    .median_ms = 1,
                                    .spread_ms = 0.1 };
        must(put(f, &m), f->err);
    }
    struct tuning_question question = find_question(ALICE, key_of(56, 1000, USUAL));
    question.nearest = true;
    question.driver = "new";
    visited = 0;

    assert_string_equal(value_for(f, &question, &answer), "");

    assert_true(visited <= 300);
}
