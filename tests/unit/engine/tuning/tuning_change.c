/* SPDX-License-Identifier: MIT */
#include "facade_fixture.h"

#include "tests/support/failing_calls.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define USER_FILE "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"

static const struct measured usual = { .tier = TUNING_TIER_USER,
                                       .uid = ALICE,
                                       .kind = TUNING_FIND,
                                       .key = KEY,
                                       .id = "ConvA",
                                       .values = "1,64,miopenConvolutionFwdAlgoDirect",
                                       .samples = 10,
                                       .median_ms = 1,
                                       .spread_ms = 0.2,
                                       .measured_at = 1000 };

TEST_F(facade, a_put_keeps_the_entries_of_other_solvers)
{
    must(put_find(f, ALICE, KEY, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, ALICE, KEY, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);
    must(put_find(f, ALICE, KEY, "ConvA", "0.5,0,miopenConvolutionFwdAlgoDirect"), f->err);

    assert_string_equal(
        find_value(f, ALICE, KEY),
        "ConvA:0.5,0,miopenConvolutionFwdAlgoDirect;ConvB:2,0,miopenConvolutionFwdAlgoWinograd");
    must(reopen(f), f->err);
    assert_string_equal(
        find_value(f, ALICE, KEY),
        "ConvA:0.5,0,miopenConvolutionFwdAlgoDirect;ConvB:2,0,miopenConvolutionFwdAlgoWinograd");
}

TEST_F(facade, pooled_measurements_state_the_pooled_time)
{
    struct tuning_question question = find_question(ALICE, KEY);
    struct tuning_answer answer;
    struct measured m = usual;
    must(put(f, &m), f->err);
    m.samples = 30;
    m.median_ms = 1.2;
    m.values = "1.2,64,miopenConvolutionFwdAlgoDirect";

    must(put(f, &m), f->err);

    assert_string_equal(value_for(f, &question, &answer),
                        "ConvA:1.15,64,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(answer.rows[0].measured.samples, 40);
    assert_int_equal(f->conflicts, 0);
}

TEST_F(facade, a_measurement_of_another_driver_is_replaced_despite_more_samples)
{
    struct measured m = usual;
    m.driver = "6.2";
    m.samples = 1000;
    must(put(f, &m), f->err);
    m = usual;
    m.values = "5,64,miopenConvolutionFwdAlgoDirect";
    m.median_ms = 5;

    must(put(f, &m), f->err);

    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:5,64,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(f->conflicts, 0);
}

TEST_F(facade, contradictory_measurements_are_reported)
{
    struct measured m = usual;
    must(put(f, &m), f->err);
    m.values = "9,64,miopenConvolutionFwdAlgoDirect";
    m.median_ms = 9;
    m.samples = 5;

    must(put(f, &m), f->err);

    assert_int_equal(f->conflicts, 1);
    assert_int_equal(f->counts.conflicts, 1);
    assert_says(f->conflict_why, "ConvA: ");
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,64,miopenConvolutionFwdAlgoDirect");
}

static void refuse(struct fixture *f, const struct measured *m, const char *why)
{
    assert_int_equal(put(f, m), KILN_INVALID);
    assert_says(f->err.text, why);
    assert_string_equal(find_value(f, ALICE, KEY), "");
}

TEST_F(facade, a_value_that_a_record_cannot_hold_is_refused)
{
    struct measured m = usual;
    struct tuning_row row = row_of(&m);
    struct tuning_job *job = NULL;
    m.id = "ConvA:1,0,miopenConvolutionFwdAlgoDirect;ConvB";
    refuse(f, &m, "id of");
    m = usual;
    m.values = "1,64,miopenConvolutionFwdAlgoDirect;ConvB:1,64,miopenConvolutionFwdAlgoWinograd";
    refuse(f, &m, "'ConvA'");
    m.values = "fast";
    refuse(f, &m, "'ConvA'");
    m.values = "1,64,miopenConvolutionFwdAlgoDirect\n";
    refuse(f, &m, "'ConvA'");
    m = usual;
    m.key = "a=b";
    refuse(f, &m, "'='");
    m = usual;
    m.tier = TUNING_TIER_SYSTEM;
    refuse(f, &m, "one user");
    assert_int_equal(tuning_job_put(f->t, &row, 0, &job, &f->err), KILN_INVALID);
    assert_null(job);
}

TEST_F(facade, impossible_values_are_refused_and_samples_are_capped)
{
    struct tuning_answer answer;
    struct tuning_question question = find_question(ALICE, KEY);
    struct measured m = usual;
    m.spread_ms = 1e200;
    assert_int_equal(put(f, &m), KILN_INVALID);
    assert_says(f->err.text, "1e+200");
    m.spread_ms = 0.1;
    m.median_ms = 1.1e9;
    assert_int_equal(put(f, &m), KILN_INVALID);
    m.median_ms = 1e-6; /* no GPU is that fast */
    assert_int_equal(put(f, &m), KILN_INVALID);
    assert_says(f->err.text, "20 TB/s");
    m.median_ms = 1;
    m.samples = 0xffffffffu; /* measuring so many samples of 1 ms would take 49 days */
    assert_int_equal(put(f, &m), KILN_INVALID);
    m.samples = 2;
    m.spread_ms = 0;
    assert_int_equal(put(f, &m), KILN_INVALID);
    m.samples = 3000000;
    m.spread_ms = 0.1;
    must(put(f, &m), f->err);
    value_for(f, &question, &answer);
    assert_int_equal(answer.rows[0].measured.samples, 1000000);
}

TEST_F(facade, a_record_that_would_get_too_long_is_full)
{
    struct measured m = usual;
    char id[32];
    static char params[60000];
    memset(params, 'x', sizeof(params) - 1);
    m.kind = TUNING_PERF;
    m.key = PERF_KEY;
    m.values = "1";
    m.id = id;
    for (unsigned i = 0; i < TUNING_ENTRIES_MAX; i++) {
        snprintf(id, sizeof(id), "Conv%u", i);
        must(put(f, &m), f->err);
    }

    m.id = "ConvOneMore";
    assert_int_equal(put(f, &m), KILN_FULL);
    assert_says(f->err.text, "ConvOneMore");
    m.key = KEY;
    m.values = params;
    must(put(f, &m), f->err);
    m.id = "ConvTwoMore";
    assert_int_equal(put(f, &m), KILN_FULL);
    m.id = "ConvOneMore";
    must(put(f, &m), f->err);
}

TEST_F(facade, a_change_that_was_not_worked_off_never_happened)
{
    struct tuning_row row = row_of(&usual);
    struct tuning_job *job = NULL;
    must(tuning_job_put(f->t, &row, 1, &job, &f->err), f->err);

    tuning_job_destroy(job);

    assert_string_equal(find_value(f, ALICE, KEY), "");
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), "");
}

TEST_F(facade, a_change_is_seen_once_it_is_taken_and_not_before)
{
    struct tuning_row row = row_of(&usual);
    struct tuning_job *job = NULL;
    must(tuning_job_put(f->t, &row, 1, &job, &f->err), f->err);
    must(tuning_job_work(job, NULL, &f->err), f->err);

    assert_string_equal(find_value(f, ALICE, KEY), "");
    assert_true(tuning_job_take(f->t, job));
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,64,miopenConvolutionFwdAlgoDirect");
    tuning_job_destroy(job);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,64,miopenConvolutionFwdAlgoDirect");
}

static struct tuning_job *work_usual_put(struct fixture *f)
{
    struct tuning_row row = row_of(&usual);
    struct tuning_job *job = NULL;
    must(tuning_job_put(f->t, &row, 1, &job, &f->err), f->err);
    must(tuning_job_work(job, NULL, &f->err), f->err);
    return job;
}

/* The change is on the disk and will be acknowledged, so look-ups must find it. */
TEST_F(facade, a_change_is_taken_again_after_memory_ran_out)
{
    struct tuning_job *job = work_usual_put(f);
    fail_call("calloc", 1, ENOMEM);
    assert_false(tuning_job_take(f->t, job));
    assert_true(calls_failed());
    assert_true(tuning_job_take(f->t, job));
    tuning_job_destroy(job);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,64,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(tuning_stats_of(f->t).left_out, 0);
}

TEST_F(facade, a_change_is_left_out_if_memory_stays_short)
{
    struct tuning_job *job = work_usual_put(f);
    unsigned calls = 1;
    fail_calls("calloc", ENOMEM);
    while (!tuning_job_take(f->t, job))
        assert_true(++calls < 100);
    assert_true(calls_failed());
    tuning_job_destroy(job);
    assert_int_equal(tuning_stats_of(f->t).left_out, 1);
}

/* If a job is destroyed after its change was written to the disk, the records in memory must
 * change, too. Otherwise, memory and disk would differ until the next start. */
TEST_F(facade, a_change_that_is_on_the_disk_is_taken_over_by_its_end)
{
    struct tuning_row row = row_of(&usual);
    struct tuning_job *job = NULL;
    must(tuning_job_put(f->t, &row, 1, &job, &f->err), f->err);
    must(tuning_job_work(job, NULL, &f->err), f->err);

    tuning_job_destroy(job);

    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,64,miopenConvolutionFwdAlgoDirect");
}

#define ONE KEY_OF_BATCH(1)
#define TWO KEY_OF_BATCH(2)
#define THREE KEY_OF_BATCH(3)
#define FOUR KEY_OF_BATCH(4)

TEST_F(facade, beyond_a_users_quota_everything_stays_as_it_was)
{
    f->options.records_per_uid = 2;
    must(reopen(f), f->err);
    must(put_find(f, ALICE, ONE, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);

    assert_int_equal(import_text(f, USER_FILE, TUNING_TIER_USER, ALICE,
                                 ONE "=ConvB:1,0,miopenConvolutionFwdAlgoWinograd\n" TWO
                                     "=ConvB:1,0,"
                                     "miopenConvolutionFwdAlgoWinograd\n" THREE
                                     "=ConvB:1,0,miopenConvolutionFwdAlgoWinograd\n"),
                     KILN_FULL);
    assert_says(f->err.text, "user 1000");
    assert_string_equal(find_value(f, ALICE, ONE), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(find_value(f, ALICE, TWO), "");
    must(put_find(f, ALICE, TWO, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    assert_int_equal(put_find(f, ALICE, THREE, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"),
                     KILN_FULL);
    must(put_find(f, ALICE, TWO, "ConvB", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(put_find(f, BOB, THREE, "ConvA", "1,0,miopenConvolutionFwdAlgoDirect"), f->err);
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, ONE), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(find_value(f, ALICE, THREE), "");
}

TEST_F(facade, a_file_with_more_bytes_than_a_user_may_have_is_refused_whole)
{
    f->options.bytes_per_uid = 400;
    must(reopen(f), f->err);
    assert_int_equal(import_text(f, USER_FILE, TUNING_TIER_USER, ALICE,
                                 ONE "=ConvB:1,0,miopenConvolutionFwdAlgoWinograd\n" TWO
                                     "=ConvB:1,0,"
                                     "miopenConvolutionFwdAlgoWinograd\n" THREE
                                     "=ConvB:1,0,miopenConvolutionFwdAlgoWinograd\n" FOUR
                                     "=ConvB:1,0,miopenConvolutionFwdAlgoWinograd\n"),
                     KILN_FULL);
    assert_says(f->err.text, "tuning_bytes_per_uid");
    assert_string_equal(find_value(f, ALICE, ONE), "");
    must(put_find(f, ALICE, ONE, "ConvB", "1,0,miopenConvolutionFwdAlgoWinograd"), f->err);
}

TEST_F(facade, a_backup_holds_all_records)
{
    struct tuning_job *job = NULL;
    char directory[160], path[200];
    must(put_find(f, THE_HOST, KEY, "ConvH", "1,0,h"), f->err);
    snprintf(directory, sizeof(directory), "%s/backup", f->sources);
    snprintf(path, sizeof(path), "%s/tuning.db", directory);
    assert_int_equal(mkdir(directory, 0700), 0);

    enum kiln_code rc = tuning_job_backup(f->t, path, &job, &f->err);
    must(finish(f, rc, job), f->err);
    rc = tuning_job_vacuum(f->t, &job, &f->err);
    must(finish(f, rc, job), f->err);

    struct tuning_options options = f->options;
    char notice[512];
    KILN_AUTO(tuning) struct tuning *copy = NULL;
    options.directory = directory;
    must(tuning_open(&options, &copy, notice, &f->err), f->err);
    assert_int_equal(tuning_stats_of(copy).host_records, 1);
    assert_string_equal(find_value(f, 7, KEY), "ConvH:1,0,h");
}

static enum kiln_code put_once(struct fixture *f, const struct measured *m, uint8_t token)
{
    const struct tuning_put_token whole = { { token } };
    struct tuning_job *job = NULL;
    struct tuning_row row = row_of(m);
    enum kiln_code rc = tuning_job_put(f->t, &row, 1, &job, &f->err);
    if (!rc)
        tuning_job_once(job, &whole);
    return finish(f, rc, job);
}

static uint32_t samples_of(struct fixture *f)
{
    struct tuning_answer answer;
    struct tuning_question question = find_question(ALICE, KEY);
    assert_string_not_equal(value_for(f, &question, &answer), "");
    return answer.rows[0].measured.samples;
}

TEST_F(facade, a_put_that_comes_again_counts_once)
{
    struct measured again = usual;
    must(put_once(f, &usual, 1), f->err);
    assert_int_equal(f->counts.records, 1);
    again.measured_at += 5;

    must(put_once(f, &again, 1), f->err);

    assert_int_equal(f->counts.records, 0);
    assert_int_equal(samples_of(f), 10);
    struct measured later = usual;
    later.measured_at++;
    must(put_once(f, &later, 2), f->err);
    assert_int_equal(samples_of(f), 20);
    must(reopen(f), f->err);
    later.measured_at++;
    must(put_once(f, &later, 2), f->err);
    must(put_once(f, &later, 1), f->err);
    assert_int_equal(samples_of(f), 20);
}

TEST_F(facade, a_put_of_another_user_is_another_one)
{
    struct measured bobs = usual;
    bobs.uid = BOB;
    must(put_once(f, &usual, 1), f->err);
    must(put_once(f, &bobs, 1), f->err);
    assert_int_equal(f->counts.records, 1);
    assert_string_not_equal(find_value(f, BOB, KEY), "");
}

TEST_F(facade, a_put_that_failed_may_come_again)
{
    struct measured other = usual;
    other.key = KEY_OF_BATCH(7);
    f->options.records_per_uid = 1;
    must(reopen(f), f->err);
    must(put_once(f, &usual, 1), f->err);
    assert_int_equal(put_once(f, &other, 2), KILN_FULL);
    f->options.records_per_uid = 2;
    must(reopen(f), f->err);

    must(put_once(f, &other, 2), f->err);

    assert_int_equal(f->counts.records, 1);
    assert_string_not_equal(find_value(f, ALICE, other.key), "");
}

TEST_F(facade, a_limit_that_is_changed_counts_with_the_next_put)
{
    struct measured other = usual;
    other.key = KEY_OF_BATCH(7);
    must(put_once(f, &usual, 1), f->err);
    f->options.records_per_uid = 1;
    tuning_set_limits(f->t, &f->options);
    assert_int_equal(put_once(f, &other, 2), KILN_FULL);
    f->options.records_per_uid = 0;
    tuning_set_limits(f->t, &f->options);

    must(put_once(f, &other, 2), f->err);
}

TEST_F(facade, a_record_with_an_invalid_solver_name_is_refused)
{
    struct measured m = usual;
    m.id = "Conv A";
    refuse(f, &m, "'Conv A'");
    m.kind = TUNING_PERF;
    m.key = PERF_KEY;
    m.values = "1,2";
    refuse(f, &m, "'Conv A'");
}
