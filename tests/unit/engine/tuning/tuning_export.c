/* SPDX-License-Identifier: MIT */
#include "facade_fixture.h"

#include "common/base/fs.h"
#include "tests/support/test_files.h"
#include "tests/support/tuning_work.h"
#include "tests/support/whole_tuning_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM "gfx90a68.HIP.fdb.txt"
#define USER_FILE "gfx90a68.HIP.2_17_0_a82233c22.ufdb.txt"
#define PERF "gfx90a68.db.txt"
#define A KEY_OF_BATCH(1)
#define B KEY_OF_BATCH(2)
#define C KEY_OF_BATCH(3)
#define X KEY_OF_BATCH(4)
#define Y KEY_OF_BATCH(5)
#define Z KEY_OF_BATCH(6)
#define DIRECT "miopenConvolutionFwdAlgoDirect"

static const struct tuning_export system_tier = { .tier = TUNING_TIER_SYSTEM };
static const struct tuning_export host_tier = { .tier = TUNING_TIER_HOST };
static const struct tuning_export alices = { .tier = TUNING_TIER_USER, .uid = ALICE };

TEST_F(facade, a_system_database_comes_out_as_it_went_in)
{
    static const char text[] = B "=ConvB:1.50,0,miopenConvolutionFwdAlgoWinograd;ConvA:0.1,64,"
                                 "miopenConvolutionFwdAlgoDirect\n" KEY
                                 "=miopenConvolutionFwdAlgoGEMM:ConvA,1,0,MIOpenGEMM,not used\n" A
                                 "=ConvA:1e-04,0,miopenConvolutionFwdAlgoDirect\n";
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, text), f->err);
    must(put_find(f, THE_HOST, KEY, "ConvH", "1,0,h"), f->err);

    assert_string_equal(export_text(f, SYSTEM, system_tier), text);
    assert_int_equal(f->counts.records, 3);
}

#define LINE_OF_A A "=ConvA:1,0,miopenConvolutionFwdAlgoDirect\n"
#define LINE_OF_B B "=ConvA:2,0,miopenConvolutionFwdAlgoDirect\n"
#define LINE_OF_C                                                    \
    C "=ConvB:1.50,0,miopenConvolutionFwdAlgoWinograd;ConvA:0.1,64," \
      "miopenConvolutionFwdAlgoDirect\n"

TEST_F(facade, a_users_file_comes_out_in_the_order_of_its_keys)
{
    static const char text[] = LINE_OF_A LINE_OF_B LINE_OF_C;
    static const char perf[] = PERF_KEY
        "=ConvB:1,2;ConvA:3\n" PERF_KEY_OF(2, 0) "=ConvA:\n" PERF_KEY_OF(1, 1) "=ConvA:1\n";
    static const char sorted[] =
        PERF_KEY_OF(1, 1) "=ConvA:1\n" PERF_KEY_OF(2, 0) "=ConvA:\n" PERF_KEY
                                                         "=ConvB:1,2;ConvA:3\n";
    must(import_text(f, USER_FILE, TUNING_TIER_USER, ALICE, LINE_OF_C LINE_OF_A LINE_OF_B), f->err);
    must(import_text(f, "gfx90a68_1.1.0.udb.txt", TUNING_TIER_USER, ALICE, perf), f->err);
    must(put_find(f, BOB, KEY, "ConvX", "1,0,h"), f->err);
    must(put_find(f, THE_HOST, KEY, "ConvX", "1,0,h"), f->err);

    assert_string_equal(export_text(f, USER_FILE, alices), text);
    assert_string_equal(export_text(f, "gfx90a68_1.1.0.udb.txt", alices), sorted);
    must(reopen(f), f->err);
    assert_string_equal(export_text(f, USER_FILE, alices), text);
}

TEST_F(facade, only_the_tier_device_and_backend_asked_for_come_out)
{
    must(put_find(f, THE_HOST, "host", "ConvA", "1,0,h"), f->err);
    must(put_find(f, ALICE, "user", "ConvA", "1,0,h"), f->err);

    assert_string_equal(export_text(f, SYSTEM, host_tier), "host=ConvA:1,0,h\n");
    assert_string_equal(export_text(f, SYSTEM, system_tier), "");
    assert_string_equal(export_text(f, "gfx90a6e.HIP.fdb.txt", host_tier), "");
    assert_string_equal(export_text(f, "gfx90a68.OpenCL.fdb.txt", host_tier), "");
    assert_string_equal(export_text(f, PERF, host_tier), "");
    struct tuning_export bobs = { .tier = TUNING_TIER_USER, .uid = BOB };
    assert_string_equal(export_text(f, SYSTEM, bobs), "");
}

TEST_F(facade, a_record_with_tf32_is_found_apart_and_stays_out_of_miopens_files)
{
#define TF32_KEY "64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-TF32-F"
#define FP32_KEY "64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F"
    must(put_find(f, ALICE, TF32_KEY, "ConvT", "1,0," DIRECT), f->err);
    assert_string_equal(find_value(f, ALICE, FP32_KEY), "");
    must(put_find(f, ALICE, FP32_KEY, "ConvF", "2,0," DIRECT), f->err);

    assert_string_equal(find_value(f, ALICE, TF32_KEY), "ConvT:1,0," DIRECT);
    assert_string_equal(find_value(f, ALICE, FP32_KEY), "ConvF:2,0," DIRECT);
    assert_string_equal(export_text(f, USER_FILE, alices), FP32_KEY "=ConvF:2,0," DIRECT "\n");
}

TEST_F(facade, a_merged_export_has_each_key_once_as_a_look_up_answers_it)
{
    struct tuning_export host = { .tier = TUNING_TIER_HOST, .merged = true }, user = alices;
    user.merged = true;
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0,
                     A "=S:1,0," DIRECT "\n" B "=S:1,0," DIRECT "\n" C "=S:1,0," DIRECT "\n"),
         f->err);
    must(put_find(f, ALICE, Z, "U", "1,0,u"), f->err);
    must(put_find(f, ALICE, C, "U", "1,0,u"), f->err);
    must(put_find(f, ALICE, Y, "U", "1,0,u"), f->err);
    must(put_find(f, BOB, A, "B", "1,0,miopenConvolutionFwdAlgoWinograd"), f->err);
    must(put_find(f, THE_HOST, B, "H", "1,0,h"), f->err);
    must(put_find(f, THE_HOST, C, "H", "1,0,h"), f->err);
    must(put_find(f, THE_HOST, Y, "H", "1,0,h"), f->err);
    must(put_find(f, THE_HOST, X, "H", "1,0,h"), f->err);

    assert_string_equal(export_text(f, SYSTEM, host), A "=S:1,0," DIRECT "\n" B "=H:1,0,h\n" C
                                                        "=H:1,0,h\n" X "=H:1,0,h\n" Y "=H:1,0,h\n");
    assert_string_equal(export_text(f, SYSTEM, user),
                        A "=S:1,0," DIRECT "\n" B "=H:1,0,h\n" C "=U:1,0,u\n" X "=H:1,0,h\n" Y
                          "=U:1,0,u\n" Z "=U:1,0,u\n");
}

TEST_F(facade, merged_perf_records_have_the_solvers_of_all_tiers)
{
    struct tuning_export user = alices;
    user.merged = true;
    must(import_text(f, PERF, TUNING_TIER_SYSTEM, 0, PERF_KEY "=ConvA:s;ConvB:s\n"), f->err);
    must(put_perf(f, THE_HOST, "ConvB", "h"), f->err);
    must(put_perf(f, ALICE, "ConvC", "u"), f->err);

    assert_string_equal(export_text(f, PERF, user), PERF_KEY "=ConvC:u;ConvB:h;ConvA:s\n");
}

TEST_F(facade, merged_a_device_gets_the_nearest_ones_database_below_its_own_records)
{
    struct tuning_export host = { .tier = TUNING_TIER_HOST, .merged = true };
    must(import_text(f, "gfx90a6e.HIP.fdb.txt", TUNING_TIER_SYSTEM, 0,
                     A "=S:1,0," DIRECT "\n" B "=S:1,0," DIRECT "\n"),
         f->err);
    must(put_find(f, THE_HOST, B, "H", "1,0,h"), f->err);

    assert_string_equal(export_text(f, SYSTEM, host), A "=S:1,0," DIRECT "\n" B "=H:1,0,h\n");
    assert_string_equal(export_text(f, SYSTEM, system_tier), "");
}

#define NEW_TEXT                                                                                   \
    A "=ConvA:2,64,miopenConvolutionFwdAlgoDirect;ConvB:1,0,miopenConvolutionFwdAlgoDirect;ConvC:" \
      "0.5,8,miopenConvolutionFwdAlgoGEMM\n" B                                                     \
      "=ConvA:1,0,miopenConvolutionFwdAlgoDirect;ConvB:1,0,miopenConvolutionFwdAlgoDirect\n"

TEST_F(facade, converted_to_the_old_dialect_the_fastest_solver_of_an_algorithm_stays)
{
    struct tuning_export what = system_tier;
    what.converts = true;
    what.dialect = FIND_OLD;
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, NEW_TEXT), f->err);

    assert_string_equal(
        export_text(f, SYSTEM, what),
        A "=miopenConvolutionFwdAlgoDirect:ConvB,1,0,miopenConvolutionFwdAlgoDirect,<unused>;"
          "miopenConvolutionFwdAlgoGEMM:ConvC,0.5,8,miopenConvolutionFwdAlgoGEMM,<unused>\n" B
          "=miopenConvolutionFwdAlgoDirect:ConvA,1,0,miopenConvolutionFwdAlgoDirect,<unused>\n");
    what.dialect = FIND_NEW;
    assert_string_equal(export_text(f, SYSTEM, what), NEW_TEXT);
}

TEST_F(facade, records_of_the_old_dialect_are_rewritten_in_the_new_one)
{
    struct tuning_export what = system_tier;
    what.converts = true;
    what.dialect = FIND_NEW;
    must(import_text(
             f, SYSTEM, TUNING_TIER_SYSTEM, 0,
             A
             "=miopenConvolutionFwdAlgoDirect:ConvB,1.25,0,miopenConvolutionFwdAlgoDirect,<unused>"
             ";miopenConvolutionFwdAlgoGEMM:ConvC,0.5,8,miopenConvolutionFwdAlgoGEMM,not used\n" B
             "=ConvA:1.0,0,miopenConvolutionFwdAlgoDirect\n"),
         f->err);

    assert_string_equal(
        export_text(f, SYSTEM, what), A
        "=ConvB:1.25,0,miopenConvolutionFwdAlgoDirect;ConvC:0.5,8,miopenConvolutionFwdAlgoGEMM\n" B
        "="
        "ConvA:1.0,0,miopenConvolutionFwdAlgoDirect\n");
}

struct rows {
    char text[1000];
    uint64_t ids;
};

static bool on_row(void *context, const struct tuning_record *record)
{
    struct rows *rows = context;
    size_t used = strlen(rows->text);
    snprintf(rows->text + used, sizeof(rows->text) - used, "%llu %.*s=%.*s\n",
             (unsigned long long)record->line, (int)record->key.size,
             (const char *)record->key.data, (int)record->value.size,
             (const char *)record->value.data);
    for (size_t i = 0; i < record->id_count; i++)
        rows->ids = rows->ids * 100 + record->ids[i];
    return true;
}

static bool on_bad(void *context, uint64_t line, const char *why)
{
    (void)context;
    (void)line;
    fail_msg("%s", why);
    return false;
}

static struct rows export_rows(struct fixture *f, struct tuning_export what)
{
    struct rows rows = { "", 0 };
    struct tuning_reader_events events = { on_row, on_bad, NULL, &rows };
    char path[320];
    snprintf(path, sizeof(path), "%s/gfx90a68.db", f->sources);
    unlink(path);
    must(tuning_file_name_parse("gfx90a68.db", &what.name, &f->err), f->err);
    must(tuning_export_file(f->t, &what, path, &f->counts, &f->err), f->err);
    must(perf_db_read(path, &events, &f->err), f->err);
    return rows;
}

/* A problem with mixed layouts, which no row of MIOpen's SQLite databases can express. */
#define NO_ROW "64-56-56-3x3-64-56-56-32-1x1-1x1-1x1-0-NHWC-NCHW-NHWC-FP32-F"
#define PERF_KEY_2 "2x64x28x28x1x3x3x1x64x32x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"

TEST_F(facade, a_perf_database_becomes_sqlite_and_comes_back_with_its_ids)
{
    struct tuning_job *job = NULL;
    must(import_text(f, PERF, TUNING_TIER_SYSTEM, 0,
                     PERF_KEY "=ConvA:1;ConvB:2\n" NO_ROW "=ConvA:1\n" PERF_KEY_2 "=ConvA:3\n"),
         f->err);

    struct rows first = export_rows(f, system_tier);
    assert_int_equal(f->counts.records, 2);
    assert_int_equal(f->counts.bad, 1);
    struct tuning_import import = import_of(f, "gfx90a68.db", TUNING_TIER_SYSTEM, 0);
    enum kiln_code rc = tuning_job_import(f->t, &import, &job, &f->err);
    must(finish(f, rc, job), f->err);
    struct rows again = export_rows(f, system_tier);

    assert_says(first.text, PERF_KEY "=ConvA:1;ConvB:2\n");
    assert_string_equal(first.text, again.text);
    assert_int_equal(first.ids, again.ids);
    assert_string_equal(perf_value(f, ALICE, NO_ROW), "");
}

/* The merge adds the entry ConvH to the first record. ConvH must not get an id that a later entry
 * of the database has. */
TEST_F(facade, merged_into_sqlite_no_row_gets_lost)
{
    struct tuning_job *job = NULL;
    struct tuning_export host = { .tier = TUNING_TIER_HOST, .merged = true };
    must(import_text(f, PERF, TUNING_TIER_SYSTEM, 0,
                     PERF_KEY "=ConvA:1;ConvB:2\n" PERF_KEY_2 "=ConvA:3\n"),
         f->err);
    (void)export_rows(f, system_tier);
    struct tuning_import import = import_of(f, "gfx90a68.db", TUNING_TIER_SYSTEM, 0);
    enum kiln_code rc = tuning_job_import(f->t, &import, &job, &f->err);
    must(finish(f, rc, job), f->err);
    must(put_perf(f, THE_HOST, "ConvH", "4"), f->err);

    struct rows rows = export_rows(f, host);

    assert_int_equal(f->counts.bad, 0);
    assert_says(rows.text, PERF_KEY "=ConvH:4;ConvA:1;ConvB:2\n");
    assert_says(rows.text, PERF_KEY_2 "=ConvA:3\n");
}

TEST_F(facade, a_file_that_is_there_is_left_alone)
{
    struct tuning_export what = host_tier;
    const char *path = test_path(f->sources, "there");
    test_write_text(path, "mine");
    must(put_find(f, THE_HOST, KEY, "ConvA", "1,0,h"), f->err);

    must(tuning_file_name_parse(SYSTEM, &what.name, &f->err), f->err);
    assert_int_not_equal(tuning_export_file(f->t, &what, path, &f->counts, &f->err), KILN_OK);
    must(tuning_file_name_parse("gfx90a68.db", &what.name, &f->err), f->err);
    assert_int_not_equal(tuning_export_file(f->t, &what, path, &f->counts, &f->err), KILN_OK);
    what.name.kind = TUNING_FIND;
    assert_int_equal(tuning_export_file(f->t, &what, path, &f->counts, &f->err), KILN_INVALID);

    assert_string_equal(test_read_text(path), "mine");
}

/* Damages the value of |key| in the only index of |kind|, which stays mapped. */
static void damage(struct fixture *f, const char *kind, const char *key)
{
    BUFFER_AUTO struct buffer content;
    char path[320];
    buffer_init(&content, 1u << 20);
    assert_int_equal(files(f, kind, ".kti", path), 1);
    must(fs_read_file(path, 1u << 20, &content, &f->err), f->err);
    const uint8_t *at = memmem(content.data, content.size, key, strlen(key));
    assert_non_null(at);
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "#", 1, at - content.data + (off_t)strlen(key)), 1);
}

/* Runs an export that must fail, name the damaged record, and leave no file. */
static void expect_damage(struct fixture *f, const char *name, struct tuning_export what,
                          const char *says)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/damaged", f->sources);
    must(tuning_file_name_parse(name, &what.name, &f->err), f->err);
    assert_int_equal(tuning_export_file(f->t, &what, path, &f->counts, &f->err), KILN_CORRUPT);
    assert_says(f->err.text, says);
    assert_says(f->err.text, "import");
    assert_int_not_equal(access(path, F_OK), 0);
}

TEST_F(facade, a_damaged_index_gives_no_file_at_all)
{
    static const char text[] =
        A "=ConvA:1,0," DIRECT "\n" B "=ConvB:1,0," DIRECT "\n" C "=ConvC:1,0," DIRECT "\n";
    static const char perf[] = PERF_KEY "=ConvA:1\n" PERF_KEY_2 "=ConvB:2\n";
    struct tuning_export merged = { .tier = TUNING_TIER_HOST, .merged = true };
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, text), f->err);
    must(import_text(f, PERF, TUNING_TIER_SYSTEM, 0, perf), f->err);
    assert_string_equal(export_text(f, SYSTEM, system_tier), text);

    damage(f, "find-", B);
    damage(f, "perf-", PERF_KEY_2);

    expect_damage(f, SYSTEM, system_tier, "record 2");
    expect_damage(f, SYSTEM, merged, "record 2");
    expect_damage(f, PERF, system_tier, "record 2");
    expect_damage(f, "gfx90a68.db", system_tier, "record 2");
    must(import_text(f, SYSTEM, TUNING_TIER_SYSTEM, 0, text), f->err);
    assert_string_equal(export_text(f, SYSTEM, system_tier), text);
}

struct disk {
    unsigned checks;
    uint64_t bytes;
    enum kiln_code answer;
};

static enum kiln_code reserve_disk(void *context, uint64_t bytes, struct kiln_err *err)
{
    struct disk *disk = context;
    disk->checks++;
    disk->bytes = bytes;
    return disk->answer ? kiln_fail(err, disk->answer, "disk full") : KILN_OK;
}

TEST_F(facade, space_is_reserved_before_the_first_record_and_before_each_megabyte)
{
    struct disk disk = { .answer = KILN_OK };
    char params[60000], key[16], path[320];
    struct tuning_export what = alices;
    memset(params, '1', sizeof(params) - 1);
    params[sizeof(params) - 1] = '\0';
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        must(put(f, &(struct measured){ .tier = TUNING_TIER_USER,
                                        .uid = ALICE,
                                        .kind = TUNING_PERF,
                                        .key = key,
                                        .id = "ConvA",
                                        .values = params }),
             f->err);
    }
    what.reserve_space = reserve_disk;
    what.context = &disk;
    export_text(f, PERF, what);
    assert_int_equal(disk.checks, 3);
    assert_in_range(disk.bytes, 40 * sizeof(params), 4u << 20);

    disk.answer = KILN_FULL;
    snprintf(path, sizeof(path), "%s/refused", f->sources);
    must(tuning_file_name_parse(PERF, &what.name, &f->err), f->err);
    assert_int_equal(tuning_export_file(f->t, &what, path, &f->counts, &f->err), KILN_FULL);
    assert_says(f->err.text, "disk full");
    assert_int_equal(disk.checks, 4);
    assert_int_not_equal(access(path, F_OK), 0);
}
