/* SPDX-License-Identifier: MIT */
#include "facade_fixture.h"

#include "common/base/fs.h"
#include "tests/support/tuning_work.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define SYSTEM "gfx90a68.HIP.fdb.txt"
#define USER_FILE "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"
#define OTHER KEY_OF_BATCH(2)
#define GOOD KEY "=ConvA:1,0,miopenConvolutionFwdAlgoDirect\n"

static enum kiln_code import_system(struct fixture *f, const char *text)
{
    return import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, text);
}

TEST_F(facade, a_bad_line_is_reported_and_skipped)
{
    must(import_system(f, GOOD "no "
                               "record\n" OTHER
                               "=ConvB:1,0,miopenConvolutionFwdAlgoWinograd\n" OTHER "="
                               "ConvC:2,0,miopenConvolutionFwdAlgoGEMM\n"),
         f->err);

    assert_int_equal(f->counts.records, 2);
    assert_int_equal(f->counts.entries, 2);
    assert_int_equal(f->counts.bad, 2);
    assert_int_equal(f->bad, 2);
    assert_int_equal(f->bad_line, 4);
    assert_says(f->bad_why, "repeated");
    assert_string_equal(find_value(f, ALICE, OTHER), "ConvB:1,0,miopenConvolutionFwdAlgoWinograd");
}

TEST_F(facade, a_strict_import_stops_at_the_first_bad_line)
{
    must(import_system(f, OTHER "=ConvB:1,0,miopenConvolutionFwdAlgoWinograd\n"), f->err);
    f->strict = true;

    assert_int_equal(import_system(f, GOOD "no record\nneither\n"), KILN_INVALID);

    assert_int_equal(f->bad, 1);
    assert_says(f->err.text, "line 2");
    assert_string_equal(find_value(f, ALICE, KEY), "");
    assert_string_equal(find_value(f, ALICE, OTHER), "ConvB:1,0,miopenConvolutionFwdAlgoWinograd");
    assert_int_equal(files(f, "find-", ".kti", NULL), 1);
}

TEST_F(facade, a_file_without_any_record_replaces_nothing)
{
    must(import_system(f, GOOD), f->err);

    assert_int_equal(import_system(f, "nothing\n"), KILN_INVALID);
    assert_says(f->err.text, "nothing");
    assert_int_equal(import_system(f, ""), KILN_INVALID);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
}

TEST_F(facade, a_file_that_is_not_there_is_said)
{
    struct tuning_job *job = NULL;
    struct tuning_import import = import_of(f, SYSTEM, TUNING_TIER_SYSTEM, 0);
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);

    assert_int_not_equal(finish(f, KILN_OK, job), KILN_OK);

    assert_says(f->err.text, SYSTEM);
}

TEST_F(facade, a_database_id_cannot_lead_an_import_out_of_the_directory)
{
    struct tuning_job *job = NULL;
    struct tuning_import import = import_of(f, SYSTEM, TUNING_TIER_SYSTEM, 0);
    snprintf(import.name.database_id, sizeof(import.name.database_id), "../files/x");

    assert_int_equal(tuning_job_import(f->t, &import, &job, &f->err), KILN_INVALID);
    assert_null(job);
}

TEST_F(facade, an_import_of_a_users_file_replaces_records)
{
    struct tuning_answer answer;
    struct tuning_question question = find_question(ALICE, KEY);
    must(put_find(f, ALICE, KEY, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);
    must(put_find(f, ALICE, OTHER, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);

    must(import_text(f, USER_FILE, TUNING_TIER_USER, ALICE, GOOD), f->err);

    assert_int_equal(f->counts.replaced, 1);
    assert_string_equal(value_for(f, &question, &answer),
                        "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_string_equal(answer.rows[0].measured.origin.library, "MIOpen");
    assert_int_equal(answer.rows[0].measured.uid, ALICE);
    assert_string_equal(find_value(f, ALICE, OTHER), "ConvB:2,0,miopenConvolutionFwdAlgoWinograd");
    assert_string_equal(find_value(f, BOB, KEY), "");
}

TEST_F(facade, a_find_time_that_no_gpu_reaches_is_a_bad_line)
{
    must(import_text(f, "gfx90a68.HIP.fdb.txt", TUNING_TIER_SYSTEM, 0,
                     KEY "=ConvA:1e-06,0,miopenConvolutionFwdAlgoDirect\n" OTHER
                         "=ConvB:0,0,miopenConvolutionFwdAlgoWinograd\n"),
         f->err);
    assert_int_equal(f->bad, 1);
    assert_int_equal(f->bad_line, 1);
    assert_says(f->bad_why, "20 TB/s");
    assert_int_equal(f->counts.records, 1); /* times of 0 are accepted, as AMD's files have them */
}

TEST_F(facade, measurements_of_other_solvers_outlive_an_import)
{
    static const char *const solvers[] = { "ConvC", "ConvA" };
    for (size_t i = 0; i < 2; i++)
        must(put(f, &(struct measured){ .tier = TUNING_TIER_USER,
                                        .uid = ALICE,
                                        .kind = TUNING_FIND,
                                        .key = KEY,
                                        .id = solvers[i],
                                        .values = "3,0,miopenConvolutionFwdAlgoGEMM",
                                        .samples = 5,
                                        .median_ms = 3,
                                        .spread_ms = 0.1 }),
             f->err);
    must(put_find(f, ALICE, KEY, "ConvB", "2,0,miopenConvolutionFwdAlgoWinograd"), f->err);

    must(import_text(f, USER_FILE, TUNING_TIER_USER, ALICE, GOOD), f->err);

    struct tuning_answer answer;
    struct tuning_question question = find_question(ALICE, KEY);
    static const char now[] = "ConvA:1,0,miopenConvolutionFwdAlgoDirect"
                              ";ConvC:3,0,miopenConvolutionFwdAlgoGEMM";
    assert_string_equal(value_for(f, &question, &answer), now);
    assert_int_equal(answer.row_count, 2);
    assert_int_equal(answer.rows[0].measured.samples, 0);
    assert_int_equal(answer.rows[1].measured.samples, 5);
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), now);
}

/* Old text PerfDbs use FindDb keys. */
TEST_F(facade, an_old_perf_key_is_found_by_the_new_one)
{
    static const char mixed[] = "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-0-NHWC-NCHW-NHWC-FP32-F";
    char text[500];
    snprintf(text, sizeof(text), "%s=ConvA:1\n%s=ConvB:2\n", KEY, mixed);

    must(import_text(f, "gfx90a68.cd.pdb.txt", TUNING_TIER_SYSTEM, 0, text), f->err);
    assert_string_equal(perf_value(f, ALICE, PERF_KEY), "ConvA:1");
    assert_string_equal(perf_value(f, ALICE, mixed), "ConvB:2");
    assert_int_equal(f->counts.verbatim, 1);
    assert_int_equal(f->verbatim, 1);
    assert_int_equal(f->verbatim_line, 2);
    assert_says(f->verbatim_why, "layout");

    must(import_text(f, "gfx90a68.cd.updb.txt", TUNING_TIER_USER, ALICE, text), f->err);
    assert_string_equal(perf_value(f, ALICE, PERF_KEY), "ConvA:1");
    assert_string_equal(perf_value(f, ALICE, mixed), "ConvB:2");
}

TEST_F(facade, a_later_import_replaces_the_system_database_and_its_file)
{
    char before[320], after[320];
    must(import_system(f, GOOD), f->err);
    assert_int_equal(files(f, "find-" DEVICE ".HIP-", ".kti", before), 1);

    must(import_system(f, KEY "=ConvB:2,0,miopenConvolutionFwdAlgoWinograd\n"), f->err);

    assert_string_equal(find_value(f, ALICE, KEY), "ConvB:2,0,miopenConvolutionFwdAlgoWinograd");
    assert_int_equal(files(f, "find-" DEVICE ".HIP-", ".kti", after), 1);
    assert_string_not_equal(before, after);
    assert_int_equal(tuning_stats_of(f->t).system_records, 1);
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvB:2,0,miopenConvolutionFwdAlgoWinograd");
}

TEST_F(facade, an_import_that_is_given_up_leaves_no_file)
{
    struct tuning_job *job = NULL;
    write_source(f, SYSTEM, GOOD);
    struct tuning_import import = import_of(f, SYSTEM, TUNING_TIER_SYSTEM, 0);
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    tuning_job_destroy(job);
    assert_int_equal(files(f, "find-", ".kti", NULL), 0);
    /* The import refuses this invalid name only after it has written the index. */
    char name[2000];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    import.source_name = name;
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    assert_int_equal(work_all_steps(f->t, job, NULL, &f->err), KILN_INVALID);
    assert_int_equal(files(f, "find-", ".kti", NULL), 1);
    tuning_job_destroy(job);

    assert_int_equal(files(f, "find-", ".kti", NULL), 0);
    assert_string_equal(find_value(f, ALICE, KEY), "");
}

TEST_F(facade, an_import_that_is_on_the_disk_is_taken_over_by_its_end)
{
    struct tuning_job *job = NULL;
    must(import_system(f, KEY "=ConvB:2,0,miopenConvolutionFwdAlgoWinograd\n"), f->err);
    write_source(f, SYSTEM, GOOD);
    struct tuning_import import = import_of(f, SYSTEM, TUNING_TIER_SYSTEM, 0);
    must(tuning_job_import(f->t, &import, &job, &f->err), f->err);
    must(work_all_steps(f->t, job, NULL, &f->err), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvB:2,0,miopenConvolutionFwdAlgoWinograd");

    tuning_job_destroy(job);

    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(files(f, "find-", ".kti", NULL), 1);
}

static enum kiln_code remove_system(struct fixture *f, enum tuning_kind kind)
{
    const struct tuning_selection database = { .kind = kind, .database_id = DEVICE, .backend = "" };
    struct tuning_job *job = NULL;
    enum kiln_code rc = tuning_job_remove_system(f->t, &database, &job, &f->err);
    return finish(f, rc, job);
}

TEST_F(facade, a_system_database_is_removed_with_its_file)
{
    must(import_system(f, GOOD), f->err);

    assert_int_equal(remove_system(f, TUNING_PERF), KILN_NOT_FOUND);
    assert_says(f->err.text, "perf database");
    must(remove_system(f, TUNING_FIND), f->err);

    assert_string_equal(find_value(f, ALICE, KEY), "");
    assert_int_equal(files(f, "find-", ".kti", NULL), 0);
    must(reopen(f), f->err);
    assert_string_equal(find_value(f, ALICE, KEY), "");
}

static void touch(struct fixture *f, const char *name)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/%s", f->directory, name);
    must(fs_replace_file(path, bytes_of_text("x"), 0600, &f->err), f->err);
}

TEST_F(facade, leftovers_of_a_killed_import_are_removed_at_opening)
{
    must(import_system(f, GOOD), f->err);
    touch(f, "find-gfx90a6e.HIP-1.kti");
    touch(f, "find-gfx90a6e.HIP-1.kti.a1B2c3");
    touch(f, "notes.kti.txt");
    touch(f, "kti");

    must(reopen(f), f->err);

    assert_int_equal(files(f, "find-gfx90a6e", "", NULL), 0);
    assert_int_equal(files(f, "notes.kti.txt", "", NULL), 1);
    assert_int_equal(files(f, "kti", "", NULL), 1);
    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
}

struct systems {
    unsigned count, lost;
    char why[320];
};

static bool on_system(void *context, const struct tuning_system *system)
{
    struct systems *s = context;
    s->count++;
    s->lost += system->index == NULL;
    if (!system->index)
        snprintf(s->why, sizeof(s->why), "%s", system->why);
    assert_string_equal(system->file->source, SYSTEM);
    return true;
}

/* The system database must count as lost, with a reason that contains |why|. A second import
 * must restore it. */
static void lost_and_imported_again(struct fixture *f, const char *why)
{
    struct systems s = { 0 };
    must(reopen(f), f->err);
    tuning_each_system(f->t, on_system, &s);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.lost, 1);
    assert_says(s.why, why);
    assert_says(s.why, SYSTEM);
    assert_string_equal(find_value(f, ALICE, KEY), "");
    assert_int_equal(tuning_stats_of(f->t).damaged, 1);
    struct tuning_export what = { .tier = TUNING_TIER_SYSTEM };
    char path[320];
    snprintf(path, sizeof(path), "%s/out", f->sources);
    must(tuning_file_name_parse(SYSTEM, &what.name, &f->err), f->err);
    assert_int_equal(tuning_export_file(f->t, &what, path, &f->counts, &f->err), KILN_CORRUPT);
    assert_int_not_equal(access(path, F_OK), 0);

    must(import_system(f, GOOD), f->err);

    assert_string_equal(find_value(f, ALICE, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
    assert_int_equal(files(f, "find-", ".kti", NULL), 1);
}

TEST_F(facade, a_missing_damaged_or_foreign_index_is_reported)
{
    char path[320], other[320];
    must(import_system(f, GOOD), f->err);

    files(f, "find-", ".kti", path);
    assert_int_equal(unlink(path), 0);
    lost_and_imported_again(f, "cannot open it");

    files(f, "find-", ".kti", path);
    assert_int_equal(truncate(path, 300), 0);
    lost_and_imported_again(f, "300 of");

    files(f, "find-", ".kti", path);
    must(fs_replace_file(path, bytes_of_text("x"), 0600, &f->err), f->err);
    lost_and_imported_again(f, "of 1 bytes is impossible");

    files(f, "find-", ".kti", path);
    snprintf(other, sizeof(other), "%s/kept", f->sources);
    assert_int_equal(link(path, other), 0);
    must(import_system(f, KEY "=ConvB:2,0,miopenConvolutionFwdAlgoWinograd\n"), f->err);
    files(f, "find-", ".kti", path);
    assert_int_equal(rename(other, path), 0);
    lost_and_imported_again(f, "not the one that was imported");
}

TEST_F(facade, an_index_of_another_kind_is_reported)
{
    char find[320], perf[320];
    must(import_system(f, GOOD), f->err);
    must(import_text(f, "gfx90a68.db.txt", TUNING_TIER_SYSTEM, 0, PERF_KEY "=ConvA:1\n"), f->err);
    files(f, "find-", ".kti", find);
    files(f, "perf-", ".kti", perf);
    assert_int_equal(rename(perf, find), 0);
    must(remove_system(f, TUNING_PERF), f->err);

    lost_and_imported_again(f, "another kind");
}

/* Limits the size of written files to |bytes|, or only to the hard limit if |bytes| is 0. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes ? bytes : limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A failed commit may still be on the disk, so the index file must stay. */
TEST_F(facade, the_index_of_a_commit_that_failed_stays_until_the_next_start)
{
    /* The log must become larger than an index, so that the limit below affects only the log. */
    for (unsigned i = 0; i < 40; i++) {
        char key[32];
        snprintf(key, sizeof(key), "key%u", i);
        must(put_find(f, ALICE, key, "ConvA", "1,0,a"), f->err);
    }
    limit_files(200000);
    enum kiln_code rc = import_system(f, GOOD);
    limit_files(0);

    assert_int_not_equal(rc, KILN_OK);
    assert_int_equal(files(f, "find-", ".kti", NULL), 1);
    assert_string_equal(find_value(f, 7, KEY), "");
    must(reopen(f), f->err);
    assert_int_equal(files(f, "find-", ".kti", NULL), 0);
    must(import_system(f, GOOD), f->err);
    assert_string_equal(find_value(f, 7, KEY), "ConvA:1,0,miopenConvolutionFwdAlgoDirect");
}
