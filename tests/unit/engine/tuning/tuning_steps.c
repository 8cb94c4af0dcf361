/* SPDX-License-Identifier: MIT */
/* Tests of changes that take several steps of 20 ms. Each reading of the fake clock advances it
 * by 1 ms. */
#include "facade_fixture.h"

#include "tests/support/stepped_clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define USER_FILE "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"
#define SYSTEM_FILE "gfx90a68.HIP.fdb.txt"
#define RECORDS 300u
#define STEP_MAX 21u /* most records that a step can read in its 20 ms */
/* most records that a step stores, even if it could store more in 20 ms */
#define STORED_MAX 250u
#define MS 1000000u

SET_UP(setup_steps)
{
    open_facade(f);
    step_clock(MS);
}

TEAR_DOWN(teardown_steps) { step_clock(1); }

FIXTURE(steps, setup_steps, teardown_steps);

static const char *key_of(unsigned number)
{
    static char key[80];
    snprintf(key, sizeof(key), "64-56-56-3x3-64-56-56-%u-1x1-1x1-1x1-0-NCHW-FP32-F", number + 1);
    return key;
}

static void put_text(struct buffer *to, const char *text) { buffer_put(to, text, strlen(text)); }

static struct tuning_import write_entries(struct fixture *f, const char *name,
                                          enum tuning_tier tier, unsigned entries)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, 4u << 20);
    for (unsigned i = 0; i < RECORDS; i++) {
        put_text(&text, key_of(i));
        for (unsigned j = 0; j < entries; j++) {
            char entry[80];
            snprintf(entry, sizeof(entry), "%cConv%c%.*s:1,0,miopenConvolutionFwdAlgoDirect",
                     j ? ';' : '=', 'A' + j % 26, (int)(j / 26), "XXXXXXXX");
            put_text(&text, entry);
        }
        put_text(&text, "\n");
    }
    buffer_put_u8(&text, '\0');
    write_source(f, name, (const char *)text.data);
    return import_of(f, name, tier, ALICE);
}

static struct tuning_import write_file(struct fixture *f, const char *name, enum tuning_tier tier)
{
    return write_entries(f, name, tier, 1);
}

static void import_all(struct fixture *f)
{
    struct tuning_import import = write_file(f, USER_FILE, TUNING_TIER_USER);
    struct tuning_job *job = NULL;
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    must(finish(f, KILN_OK, job), f->err);
}

static uint64_t stored(struct fixture *f) { return tuning_stats_of(f->t).user_records; }

static bool do_step(struct fixture *f, struct tuning_job *job)
{
    must(tuning_job_work(job, NULL, &f->err), f->err);
    while (!tuning_job_take(f->t, job)) {
    }
    return tuning_job_has_more(job);
}

TEST_F(steps, an_import_reads_its_file_then_stores_some_records_in_each_step)
{
    struct tuning_import import = write_file(f, USER_FILE, TUNING_TIER_USER);
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    unsigned reading = 0, storing = 0;
    uint64_t before = 0;
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    for (bool more = true; more;) {
        more = do_step(f, job);
        assert_in_range(stored(f), before, before + STEP_MAX);
        reading += stored(f) == 0;
        storing += stored(f) > before;
        before = stored(f);
    }
    assert_int_equal(before, RECORDS);
    assert_in_range(reading, RECORDS / STEP_MAX, RECORDS);
    assert_in_range(storing, RECORDS / STEP_MAX, RECORDS);
    assert_int_equal(tuning_job_counts(job)->added, RECORDS);
}

/* The clock hardly advances, so only the number of records ends a step. */
TEST_F(steps, a_step_stores_few_records_however_fast_the_machine_is)
{
    struct tuning_import import = write_file(f, USER_FILE, TUNING_TIER_USER);
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    uint64_t before = 0;
    step_clock(1);
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);

    for (bool more = true; more;) {
        more = do_step(f, job);
        assert_in_range(stored(f), before, before + STORED_MAX);
        before = stored(f);
    }

    assert_int_equal(before, RECORDS);
}

static off_t database_size(const struct fixture *f)
{
    char path[600];
    struct stat seen;
    snprintf(path, sizeof(path), "%s/tuning.db", f->directory);
    assert_int_equal(stat(path, &seen), 0);
    return seen.st_size;
}

TEST_F(steps, the_log_is_copied_to_the_file_in_a_separate_step)
{
    struct tuning_import import = write_entries(f, USER_FILE, TUNING_TIER_USER, 100);
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    off_t size = database_size(f);
    step_clock(1);
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    while (stored(f) == 0)
        assert_true(do_step(f, job));
    uint64_t before = stored(f);
    assert_int_equal(database_size(f), size);

    assert_true(do_step(f, job));

    assert_true(database_size(f) > size);
    assert_int_equal(stored(f), before);
    while (do_step(f, job)) {
    }
    assert_int_equal(stored(f), RECORDS);
}

TEST_F(steps, an_import_that_is_given_up_while_it_reads_stores_nothing)
{
    struct tuning_import import = write_file(f, USER_FILE, TUNING_TIER_USER);
    struct tuning_job *job = NULL;
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    assert_true(do_step(f, job));
    assert_true(do_step(f, job));
    tuning_job_give_up(job);
    tuning_job_destroy(job);
    assert_int_equal(stored(f), 0);
    must(reopen(f), f->err);
    assert_int_equal(stored(f), 0);
}

TEST_F(steps, a_put_between_the_steps_of_a_merge_is_kept)
{
    struct tuning_import import = write_file(f, USER_FILE, TUNING_TIER_USER);
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    must(tuning_job_merge(f->t, &import, &job, &f->err), f->err);
    while (stored(f) == 0)
        assert_true(do_step(f, job));
    must(put_find(f, ALICE, key_of(0), "ConvB", "2,0,miopenConvolutionFwdAlgoGEMM"), f->err);
    must(put_find(f, ALICE, key_of(RECORDS - 1), "ConvB", "2,0,miopenConvolutionFwdAlgoGEMM"),
         f->err);
    while (do_step(f, job)) {
    }
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, key_of(0)),
                        "ConvA:1,0,miopenConvolutionFwdAlgoDirect;ConvB:2,0,"
                        "miopenConvolutionFwdAlgoGEMM");
    assert_string_equal(find_value(f, ALICE, key_of(RECORDS - 1)),
                        "ConvB:2,0,miopenConvolutionFwdAlgoGEMM;ConvA:1,0,"
                        "miopenConvolutionFwdAlgoDirect");
}

TEST_F(steps, records_are_removed_in_steps_and_changed_ones_looked_at_again)
{
    const struct tuning_selection selection = { .by_uid = true, .uid = ALICE, .solver = "ConvA" };
    struct tuning_job *job = NULL;
    import_all(f);
    must(tuning_job_remove(f->t, &selection, &job, &f->err), f->err);
    unsigned listing = 0;
    for (; stored(f) == RECORDS; listing++)
        assert_true(do_step(f, job));
    assert_in_range(listing, RECORDS / STEP_MAX, RECORDS);
    assert_in_range(stored(f), RECORDS - STEP_MAX, RECORDS - 1);
    for (unsigned i = 0; i < RECORDS; i++)
        must(put_find(f, ALICE, key_of(i), "ConvB", "2,0,miopenConvolutionFwdAlgoGEMM"), f->err);
    while (do_step(f, job)) {
    }
    tuning_job_destroy(job);
    assert_int_equal(stored(f), RECORDS);
    for (unsigned i = 0; i < RECORDS; i++)
        assert_string_equal(find_value(f, ALICE, key_of(i)),
                            "ConvB:2,0,miopenConvolutionFwdAlgoGEMM");
}

TEST_F(steps, a_system_database_replaces_the_old_one_in_its_last_step)
{
    struct tuning_import import = write_file(f, SYSTEM_FILE, TUNING_TIER_SYSTEM);
    struct tuning_job *job = NULL;
    unsigned count = 1;
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    for (; do_step(f, job); count++)
        assert_string_equal(find_value(f, BOB, key_of(0)), "");
    tuning_job_destroy(job);
    assert_string_equal(find_value(f, BOB, key_of(RECORDS - 1)),
                        "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_in_range(count, RECORDS / STEP_MAX, RECORDS);
}

TEST_F(steps, a_big_step_is_taken_over_in_several_calls)
{
    const struct tuning_selection all = { .by_uid = true, .uid = ALICE };
    struct tuning_job *job = NULL;
    unsigned calls = 1;
    import_all(f);
    must(tuning_job_promote(f->t, &all, &f->promotion, &job, &f->err), f->err);
    must(tuning_job_work(job, NULL, &f->err), f->err);
    for (; !tuning_job_take(f->t, job); calls++) {
    }
    assert_false(tuning_job_has_more(job));
    tuning_job_destroy(job);
    assert_int_equal(tuning_stats_of(f->t).host_records, RECORDS);
    assert_int_equal(calls, 2);
}
