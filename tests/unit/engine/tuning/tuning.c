/* SPDX-License-Identifier: MIT */
#include "facade_fixture.h"

#include <stdio.h>

#define SYSTEM "gfx90a68.HIP.fdb.txt"
#define OTHER "64-28-28-3x3-64-28-28-32-1x1-1x1-1x1-0-NCHW-FP32-F"
#define ALGORITHM "miopenConvolutionFwdAlgoDirect"
#define MIXED "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-0-NHWC-NCHW-NHWC-FP32-F"

static void import_system(struct fixture *f, const char *value)
{
    char line[1000];
    snprintf(line, sizeof(line), KEY "=%s\n", value);
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, line), f->err);
}

TEST_F(facade, the_most_private_tier_that_has_a_record_answers)
{
    struct tuning_question question = find_question(ALICE, KEY);
    struct tuning_answer answer;

    assert_string_equal(value_for(f, &question, &answer), "");
    import_system(f, "ConvS:1,0," ALGORITHM);
    assert_string_equal(value_for(f, &question, &answer), "ConvS:1,0," ALGORITHM);
    assert_int_equal(answer.tier, TUNING_TIER_SYSTEM);
    assert_null(answer.rows);
    must(put_find(f, THE_HOST, KEY, "ConvH", "2,0,h"), f->err);
    assert_string_equal(value_for(f, &question, &answer), "ConvH:2,0,h");
    assert_int_equal(answer.tier, TUNING_TIER_HOST);
    must(put_find(f, ALICE, KEY, "ConvU", "3,0,u"), f->err);
    assert_string_equal(value_for(f, &question, &answer), "ConvU:3,0,u");
    assert_int_equal(answer.tier, TUNING_TIER_USER);
    assert_int_equal(answer.row_count, 1);
    assert_string_equal(answer.rows[0].measured.origin.library, "libkiln 0.1.0");
    assert_string_equal(answer.database_id, DEVICE);
    assert_false(answer.is_near || answer.is_stale);
}

TEST_F(facade, another_users_records_are_never_seen)
{
    struct tuning_question question = find_question(BOB, KEY);
    struct tuning_answer answer;
    question.nearest = true;
    must(put_find(f, ALICE, KEY, "ConvU", "3,0,u"), f->err);
    must(put_find(f, ALICE, OTHER, "ConvU", "3,0,u"), f->err);
    must(put_perf(f, ALICE, "ConvU", "1,2"), f->err);

    assert_string_equal(value_for(f, &question, &answer), "");
    question.uid = TUNING_NOBODY;
    assert_string_equal(value_for(f, &question, &answer), "");
    assert_string_equal(perf_value(f, BOB, PERF_KEY), "");
    assert_string_equal(perf_value(f, ALICE, PERF_KEY), "ConvU:1,2");
}

TEST_F(facade, everything_is_there_again_after_a_restart)
{
    import_system(f, "ConvS:1,0," ALGORITHM);
    must(put_find(f, ALICE, KEY, "ConvU", "3,0,u"), f->err);
    must(put_find(f, THE_HOST, OTHER, "ConvH", "3,0,u"), f->err);

    must(reopen(f), f->err);

    assert_string_equal(f->notice, "");
    assert_string_equal(find_value(f, ALICE, KEY), "ConvU:3,0,u");
    assert_string_equal(find_value(f, BOB, KEY), "ConvS:1,0," ALGORITHM);
    assert_string_equal(find_value(f, BOB, OTHER), "ConvH:3,0,u");
    struct tuning_stats stats = tuning_stats_of(f->t);
    assert_int_equal(stats.system_records, 1);
    assert_int_equal(stats.host_records, 1);
    assert_int_equal(stats.user_records, 1);
    assert_int_equal(stats.hits[0], 1);
    assert_int_equal(stats.hits[1], 1);
    assert_int_equal(stats.hits[2], 1);
    assert_int_equal(stats.misses, 0);
    assert_true(stats.disk_bytes > 0 && stats.mapped_bytes > 0 && stats.memory_bytes > 0);
}

TEST_F(facade, perf_entries_are_joined_over_the_tiers_by_solver)
{
    struct tuning_question question = perf_question(ALICE, PERF_KEY);
    struct tuning_answer answer;
    must(import_text(f, "gfx90a68.db.txt", TUNING_TIER_SYSTEM, 0,
                     PERF_KEY "=ConvA:s,1;ConvB:s,2;ConvC:s,3\n"),
         f->err);
    must(put_perf(f, THE_HOST, "ConvB", "h,2"), f->err);
    must(put_perf(f, THE_HOST, "ConvD", "h,4"), f->err);
    must(put_perf(f, ALICE, "ConvD", "u,4"), f->err);

    assert_string_equal(value_for(f, &question, &answer),
                        "ConvD:u,4;ConvB:h,2;ConvA:s,1;ConvC:s,3");
    assert_int_equal(answer.tier, TUNING_TIER_USER);
    assert_int_equal(answer.row_count, 2);
    assert_true(bytes_equal_text(answer.rows[0].id, "ConvD"));
    assert_true(bytes_equal_text(answer.rows[1].id, "ConvB"));
    assert_int_equal(answer.rows[1].place.tier, TUNING_TIER_HOST);
    assert_string_equal(perf_value(f, BOB, PERF_KEY), "ConvB:h,2;ConvD:h,4;ConvA:s,1;ConvC:s,3");
}

TEST_F(facade, measurements_stay_where_the_tiers_below_have_nothing_more)
{
    struct tuning_question question = perf_question(ALICE, PERF_KEY);
    struct tuning_answer answer;
    struct measured m = { .tier = TUNING_TIER_USER,
                          .uid = ALICE,
                          .kind = TUNING_PERF,
                          .key = PERF_KEY,
                          .id = "ConvA",
                          .values = "u,1",
                          .samples = 7,
                          .median_ms = 2,
                          .spread_ms = 0.1 };
    must(import_text(f, "gfx90a68.db.txt", TUNING_TIER_SYSTEM, 0, PERF_KEY "=ConvA:s,1\n"), f->err);
    must(put_perf(f, THE_HOST, "ConvA", "h,1"), f->err);
    must(put(f, &m), f->err);

    assert_string_equal(value_for(f, &question, &answer), "ConvA:u,1");

    assert_int_equal(answer.row_count, 1);
    assert_int_equal(answer.rows[0].measured.samples, 7);
}

TEST_F(facade, a_problem_and_its_key_get_the_same_answer)
{
    struct problem problem = problem_of(KEY), invalid = problem;
    struct tuning_question find = find_question(ALICE, ""), perf = perf_question(ALICE, "");
    struct tuning_answer answer, answers[3];
    import_system(f, "ConvS:1,0," ALGORITHM);
    must(put_perf(f, ALICE, "ConvA", "1"), f->err);
    find.problem = perf.problem = &problem;

    assert_string_equal(value_for(f, &find, &answer), "ConvS:1,0," ALGORITHM);
    assert_string_equal(value_for(f, &perf, &answer), "ConvA:1");
    assert_int_equal(tuning_find_all(f->t, &find, answers), 1);

    invalid.stride.h = 0;
    find.problem = &invalid;
    assert_int_equal(tuning_find(f->t, &find, &answer, &f->err), KILN_INVALID);
    assert_int_equal(tuning_find_all(f->t, &find, answers), 0);
}

TEST_F(facade, a_problem_that_has_no_perf_key_is_a_miss)
{
    struct problem problem = problem_of(MIXED);
    struct tuning_question question = perf_question(ALICE, "");
    struct tuning_answer answer, answers[3];
    must(put_perf(f, ALICE, "ConvA", "1"), f->err);
    question.problem = &problem;
    question.nearest = true;

    assert_string_equal(value_for(f, &question, &answer), "");
    assert_int_equal(tuning_find_all(f->t, &question, answers), 0);
}

TEST_F(facade, every_tier_is_reported_on_its_own)
{
    struct tuning_question question = perf_question(ALICE, PERF_KEY);
    struct tuning_answer answers[3];
    must(import_text(f, "gfx90a68.db.txt", TUNING_TIER_SYSTEM, 0, PERF_KEY "=ConvA:1\n"), f->err);
    must(put_perf(f, THE_HOST, "ConvB", "2"), f->err);
    must(put_perf(f, ALICE, "ConvC", "3"), f->err);

    assert_int_equal(tuning_find_all(f->t, &question, answers), 3);

    assert_int_equal(answers[0].tier, TUNING_TIER_USER);
    assert_true(bytes_equal_text(answers[0].value, "ConvC:3"));
    assert_int_equal(answers[1].tier, TUNING_TIER_HOST);
    assert_true(bytes_equal_text(answers[1].value, "ConvB:2"));
    assert_int_equal(answers[2].tier, TUNING_TIER_SYSTEM);
    assert_true(bytes_equal_text(answers[2].value, "ConvA:1"));
    question.uid = BOB;
    assert_int_equal(tuning_find_all(f->t, &question, answers), 2);
}

TEST_F(facade, keys_that_are_no_problems_are_found_by_their_text)
{
    static const char biased[] = "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-1-NCHW-FP32-F";
    static const char odd[] = "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-0-NCHW-FP8FP8FP8-F";
    static const char smaller[] = "64-56-56-3x3-64-55-56-32-1x1-1x1-1x1-0-NCHW-FP32-F";
    char text[1000];
    snprintf(text, sizeof(text),
             "%s=ConvA:1,0,miopenConvolutionFwdAlgoDirect\n%s=ConvB:2,0,"
             "miopenConvolutionFwdAlgoWinograd\n%s=ConvC:3,0,miopenConvolutionFwdAlgoGEMM\n",
             biased, odd, smaller);

    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, text), f->err);

    assert_int_equal(f->counts.records, 3);
    assert_int_equal(f->counts.verbatim, 3);
    assert_int_equal(f->verbatim, 3);
    assert_int_equal(f->verbatim_line, 3);
    assert_says(f->verbatim_why, "output");
    assert_string_equal(find_value(f, ALICE, biased), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(find_value(f, ALICE, odd), "ConvB:2,0,miopenConvolutionFwdAlgoWinograd");
    assert_string_equal(find_value(f, ALICE, smaller), "ConvC:3,0,miopenConvolutionFwdAlgoGEMM");
}

TEST_F(facade, without_a_database_of_its_own_a_device_gets_that_of_the_nearest_compute_units)
{
    struct tuning_question question = find_question(ALICE, KEY);
    struct tuning_answer answer;
    must(import_text(f, "gfx90a6e.HIP.fdb.txt", TUNING_TIER_SYSTEM, 0,
                     KEY "=ConvFar:1,0,miopenConvolutionFwdAlgoDirect\n"),
         f->err);
    must(import_text(f, "gfx90878.HIP.fdb.txt", TUNING_TIER_SYSTEM, 0,
                     KEY "=ConvOther:1,0,miopenConvolutionFwdAlgoDirect\n"),
         f->err);

    question.database_id = "gfx90a69";
    assert_string_equal(value_for(f, &question, &answer),
                        "ConvFar:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(answer.database_id, "gfx90a6e");
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0,
                     KEY "=ConvNear:1,0,miopenConvolutionFwdAlgoDirect\n"),
         f->err);
    assert_string_equal(value_for(f, &question, &answer),
                        "ConvNear:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(answer.database_id, "gfx90a68");
    question.database_id = "gfx90a6e";
    assert_string_equal(value_for(f, &question, &answer),
                        "ConvFar:1,0,miopenConvolutionFwdAlgoDirect");
    question.database_id = "gfx906_60";
    assert_string_equal(value_for(f, &question, &answer), "");
    question.database_id = "no id";
    assert_string_equal(value_for(f, &question, &answer), "");
    question.database_id = "gfx90a69";
    question.backend = "OpenCL";
    assert_string_equal(value_for(f, &question, &answer), "");
}

TEST_F(facade, a_measurement_answers_for_its_own_device_only)
{
    struct tuning_question question = find_question(ALICE, KEY);
    struct tuning_answer answer;
    must(put_find(f, THE_HOST, KEY, "ConvH", "2,0,h"), f->err);
    question.database_id = "gfx90a6e";

    assert_string_equal(value_for(f, &question, &answer), "");
}

static const struct measured old_a = { .tier = TUNING_TIER_USER,
                                       .uid = ALICE,
                                       .kind = TUNING_FIND,
                                       .key = KEY,
                                       .id = "ConvOld",
                                       .values = "1,0,miopenConvolutionFwdAlgoDirect",
                                       .driver = "6.2" };

static void put_old_and_new(struct fixture *f)
{
    must(put(f, &old_a), f->err);
    must(put_find(f, ALICE, KEY, "ConvNew", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);
    must(put_find(f, THE_HOST, KEY, "ConvHost", "3,0,miopenConvolutionFwdAlgoGEMM"), f->err);
}

TEST_F(facade, entries_of_another_driver_are_served_marked_and_counted_as_the_policy_says)
{
    struct tuning_question question = find_question(ALICE, KEY);
    struct tuning_answer answer;
    put_old_and_new(f);
    question.driver = "6.3";

    assert_string_equal(
        value_for(f, &question, &answer),
        "ConvOld:1,0,miopenConvolutionFwdAlgoDirect;ConvNew:2,0,miopenConvolutionFwdAlgoWinograd");
    assert_true(answer.is_stale);
    assert_int_equal(tuning_stats_of(f->t).stale, 0);
    f->options.stale = TUNING_WARN;
    must(reopen(f), f->err);
    assert_string_equal(
        value_for(f, &question, &answer),
        "ConvOld:1,0,miopenConvolutionFwdAlgoDirect;ConvNew:2,0,miopenConvolutionFwdAlgoWinograd");
    assert_true(answer.is_stale);
    assert_int_equal(tuning_stats_of(f->t).stale, 1);
    question.driver = "";
    (void)value_for(f, &question, &answer);
    assert_false(answer.is_stale);
    question.toolchain = "clang 19";
    (void)value_for(f, &question, &answer);
    assert_true(answer.is_stale);
}

TEST_F(facade, stale_entries_are_left_out_where_they_are_to_be_ignored)
{
    struct tuning_question question = find_question(ALICE, KEY);
    struct tuning_answer answer;
    put_old_and_new(f);
    f->options.stale = TUNING_IGNORE;
    must(reopen(f), f->err);

    question.driver = "6.3";
    assert_string_equal(value_for(f, &question, &answer),
                        "ConvNew:2,0,miopenConvolutionFwdAlgoWinograd");
    assert_false(answer.is_stale);
    assert_int_equal(answer.row_count, 1);
    assert_true(bytes_equal_text(answer.rows[0].id, "ConvNew"));
    question.driver = "6.2";
    assert_string_equal(value_for(f, &question, &answer),
                        "ConvOld:1,0,miopenConvolutionFwdAlgoDirect");
    question.driver = "6.1";
    assert_string_equal(value_for(f, &question, &answer), "");
    assert_int_equal(tuning_stats_of(f->t).ignored, 3);
    question.driver = "";
    (void)value_for(f, &question, &answer);
    assert_int_equal(tuning_stats_of(f->t).ignored, 3);
}

TEST_F(facade, a_stale_perf_entry_gives_way_to_a_fresh_one_of_the_tier_below)
{
    struct tuning_question question = perf_question(ALICE, PERF_KEY);
    struct tuning_answer answer;
    struct measured m = old_a;
    m.kind = TUNING_PERF;
    m.key = PERF_KEY;
    m.id = "ConvA";
    m.values = "old";
    must(put(f, &m), f->err);
    must(put_perf(f, ALICE, "ConvB", "user"), f->err);
    must(put_perf(f, THE_HOST, "ConvA", "host"), f->err);
    m.tier = TUNING_TIER_HOST;
    m.id = "ConvC";
    must(put(f, &m), f->err);
    question.driver = "6.3";

    assert_string_equal(value_for(f, &question, &answer), "ConvA:old;ConvB:user;ConvC:old");
    assert_true(answer.is_stale);
    f->options.stale = TUNING_IGNORE;
    must(reopen(f), f->err);
    assert_string_equal(value_for(f, &question, &answer), "ConvB:user;ConvA:host");
    assert_false(answer.is_stale);
}

/* Stale entries of a lower tier must not remove the fresh entries of the tier above. */
TEST_F(facade, a_tier_that_is_stale_as_a_whole_adds_nothing)
{
    struct tuning_question question = perf_question(ALICE, PERF_KEY);
    struct tuning_answer answer;
    struct measured m = old_a;
    m.kind = TUNING_PERF;
    m.key = PERF_KEY;
    must(put(f, &m), f->err);
    must(put_perf(f, ALICE, "ConvB", "user"), f->err);
    m.tier = TUNING_TIER_HOST;
    must(put(f, &m), f->err);
    f->options.stale = TUNING_IGNORE;
    must(reopen(f), f->err);
    question.driver = "6.3";

    assert_string_equal(value_for(f, &question, &answer), "ConvB:user");
}
