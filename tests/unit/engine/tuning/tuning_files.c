/* SPDX-License-Identifier: MIT */

/* Tests with genuine files of MIOpen, which are imported as system and user databases. Answers
 * must equal the files' content, and exported files the imported ones. */
#include "facade_fixture.h"

#include "common/base/fs.h"
#include "engine/codec/bzip2.h"
#include "engine/miopen/problem_key.h"
#include "tests/support/test_data.h"
#include "tests/support/tuning_work.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_MAX (1ull << 30)
#define LOOKUPS 5000u

static const char *const find_dbs[] = {
    "gfx900_56.HIP.fdb.txt", "gfx900_56.OpenCL.fdb.txt", "gfx906_60.HIP.fdb.txt",
    "gfx90a68.HIP.fdb.txt",  "gfx942130.HIP.fdb.txt",
};
static const char *const perf_dbs[] = { "gfx900_56.db", "gfx906_60.db", "gfx942130.db" };

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static const char *path_to(struct fixture *f, const char *directory, const char *name)
{
    static char paths[2][320];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof(paths[0]), "%s/%s%s", f->sources, directory, base_of(name));
    return path;
}

static void read_whole(struct fixture *f, const char *path, struct buffer *text)
{
    buffer_done(text);
    buffer_init(text, FILE_MAX);
    must(fs_read_file(path, FILE_MAX - 1, text, &f->err), f->err);
    buffer_put_u8(text, '\0');
}

static void import_file(struct fixture *f, const char *name, enum tuning_tier tier)
{
    struct tuning_job *job = NULL;
    test_data_copy(name, path_to(f, "", name));
    struct tuning_import import = import_of(f, base_of(name), tier, ALICE);
    enum kiln_code rc = tuning_job_import(f->t, &import, &job, &f->err);
    must(finish(f, rc, job), f->err);
    assert_int_equal(f->bad, 0);
}

static const char *export_file(struct fixture *f, const char *name, enum tuning_tier tier)
{
    struct tuning_export what = { .tier = tier, .uid = ALICE };
    const char *path = path_to(f, "out-", name);
    must(tuning_file_name_parse(base_of(name), &what.name, &f->err), f->err);
    unlink(path);
    must(tuning_export_file(f->t, &what, path, &f->counts, &f->err), f->err);
    assert_int_equal(f->counts.bad, 0);
    return path;
}

static void comes_out_as_it_went_in(struct fixture *f, const char *name, enum tuning_tier tier)
{
    BUFFER_AUTO struct buffer before = { 0 }, after = { 0 };
    read_whole(f, export_file(f, name, tier), &after);
    read_whole(f, path_to(f, "", name), &before);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
}

TEST_F(facade, every_genuine_find_database_comes_out_byte_by_byte)
{
    for (size_t i = 0; i < sizeof(find_dbs) / sizeof(find_dbs[0]); i++) {
        import_file(f, find_dbs[i], TUNING_TIER_SYSTEM);
        comes_out_as_it_went_in(f, find_dbs[i], TUNING_TIER_SYSTEM);
    }
    must(reopen(f), f->err);
    comes_out_as_it_went_in(f, find_dbs[0], TUNING_TIER_SYSTEM);
}

TEST_F(facade, a_genuine_users_find_database_comes_out_byte_by_byte)
{
    static const char name[] = "userdb-gfx906_60/gfx906_60.HIP.2_17_0_a82233c22.ufdb.txt";
    import_file(f, name, TUNING_TIER_USER);
    comes_out_as_it_went_in(f, name, TUNING_TIER_USER);
}

/* Cuts |*text| at the next |separator| and returns the part before it. Does not use the code
 * under test. */
static char *cut(char **text, char separator)
{
    char *part = *text, *end = strchr(part, separator);
    if (end)
        *end = '\0';
    *text = end ? end + 1 : part + strlen(part);
    return part;
}

/* |wanted| is "solver:time,workspace,algorithm". */
static void check_entry(char *wanted, const struct tuning_entry *entry)
{
    char *solver = cut(&wanted, ':');
    assert_true(bytes_equal_text(entry->id, solver));
    assert_true(bytes_equal_text(entry->values, wanted));
    assert_true(bytes_equal_text(entry->solver, solver));
    assert_true(entry->time_ms == strtod(cut(&wanted, ','), NULL));
    assert_true(entry->workspace == strtoull(cut(&wanted, ','), NULL, 10));
    assert_true(bytes_equal_text(entry->algorithm, wanted));
}

static void check_line(struct fixture *f, char *line)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tuning_answer answer;
    struct tuning_entry entry;
    struct problem problem;
    struct tuning_question question = find_question(ALICE, cut(&line, '='));
    must(tuning_find(f->t, &question, &answer, &err), err);
    assert_int_equal(answer.tier, TUNING_TIER_SYSTEM);
    struct bytes left = answer.value;
    while (*line) {
        must(tuning_entry_next(TUNING_FIND, &left, &entry, &err), err);
        check_entry(cut(&line, ';'), &entry);
    }
    assert_int_equal(left.size, 0);
    if (find_key_parse(question.key, &problem, &err) == KILN_OK) {
        struct bytes value = answer.value;
        question.problem = &problem;
        must(tuning_find(f->t, &question, &answer, &err), err);
        assert_ptr_equal(answer.value.data, value.data);
    }
}

TEST_F(facade, random_keys_of_the_largest_find_database_answer_their_line)
{
    BUFFER_AUTO struct buffer text = { 0 };
    unsigned seed = 7;
    import_file(f, "gfx90a68.HIP.fdb.txt", TUNING_TIER_SYSTEM);
    assert_int_equal(f->counts.records, 193590);
    assert_int_equal(f->counts.entries, 648924);
    read_whole(f, path_to(f, "", "gfx90a68.HIP.fdb.txt"), &text);
    char **lines = calloc(f->counts.records, sizeof(*lines)), *at = (char *)text.data;
    for (size_t i = 0; i < f->counts.records; i++)
        lines[i] = cut(&at, '\n');
    assert_string_equal(at, "");

    for (unsigned i = 0; i < LOOKUPS; i++) {
        char line[4096];
        snprintf(line, sizeof(line), "%s", lines[(size_t)rand_r(&seed) % f->counts.records]);
        check_line(f, line);
    }
    free(lines);
}

#define COLUMNS                                                                                   \
    "spatial_dim,in_channels,in_h,in_w,in_d,fil_h,fil_w,fil_d,out_channels,batchsize,pad_h,"      \
    "pad_w,pad_d,conv_stride_h,conv_stride_w,conv_stride_d,dilation_h,dilation_w,dilation_d,bias" \
    ",group_count,layout,data_type,direction"
#define KEY_COLUMNS 24

static sqlite3 *open_database(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

static sqlite3_stmt *select_from(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    return s;
}

static const char *column(sqlite3_stmt *s, int at)
{
    return (const char *)sqlite3_column_text(s, at);
}

/* Returns the params of |solver|, or NULL if |value| does not contain it. |value| has the form
 * "solver:params;...". */
static const char *params_of(char *value, const char *solver)
{
    while (*value) {
        char *entry = cut(&value, ';');
        if (strcmp(cut(&entry, ':'), solver) == 0)
            return entry;
    }
    return NULL;
}

TEST_F(facade, every_row_of_the_largest_perf_database_answers)
{
    unsigned rows = 0;
    import_file(f, "gfx906_60.db", TUNING_TIER_SYSTEM);
    sqlite3 *db = open_database(path_to(f, "", "gfx906_60.db"));
    sqlite3_stmt *s = select_from(db, "select " COLUMNS ", solver, params from perf_db join config "
                                      "on config.id = perf_db.config");
    for (; sqlite3_step(s) == SQLITE_ROW; rows++) {
        char key[400] = "", value[8192];
        struct tuning_answer answer;
        for (int i = 0; i < KEY_COLUMNS; i++)
            snprintf(key + strlen(key), sizeof(key) - strlen(key), "%s%s", i ? "x" : "",
                     column(s, i));
        struct tuning_question question = perf_question(ALICE, key);
        question.database_id = "gfx906_60";
        must(tuning_find(f->t, &question, &answer, &f->err), f->err);
        assert_true(answer.value.size < sizeof(value));
        memcpy(value, answer.value.data, answer.value.size);
        value[answer.value.size] = '\0';
        const char *params = params_of(value, column(s, KEY_COLUMNS));
        assert_non_null(params);
        assert_string_equal(params, column(s, KEY_COLUMNS + 1));
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    assert_int_equal(rows, 148096);
}

/* Compares all rows and columns as text, because AMD's numbers are text in some files. */
static void same_rows(const char *before, const char *after, const char *sql)
{
    sqlite3 *a = open_database(before), *b = open_database(after);
    sqlite3_stmt *x = select_from(a, sql), *y = select_from(b, sql);
    for (;;) {
        int more = sqlite3_step(x);
        assert_int_equal(sqlite3_step(y), more);
        if (more != SQLITE_ROW)
            break;
        for (int i = 0; i < sqlite3_column_count(x); i++)
            assert_string_equal(column(x, i), column(y, i));
    }
    sqlite3_finalize(x);
    sqlite3_finalize(y);
    sqlite3_close(a);
    sqlite3_close(b);
}

TEST_F(facade, every_genuine_perf_database_comes_out_row_by_row_with_its_ids)
{
    for (size_t i = 0; i < sizeof(perf_dbs) / sizeof(perf_dbs[0]); i++) {
        import_file(f, perf_dbs[i], TUNING_TIER_SYSTEM);
        const char *after = export_file(f, perf_dbs[i], TUNING_TIER_SYSTEM);
        const char *before = path_to(f, "", perf_dbs[i]);
        same_rows(before, after, "select id, " COLUMNS " from config order by id");
        same_rows(before, after, "select id, solver, config, params from perf_db order by id");
    }
}

/* A user's records get new ids, and are written in the order of their keys. */
TEST_F(facade, a_genuine_users_perf_database_comes_out_row_by_row)
{
    static const char name[] = "userdb-gfx906_60/gfx906_60_1.1.0.udb";
    import_file(f, name, TUNING_TIER_USER);
    const char *after = export_file(f, name, TUNING_TIER_USER);
    same_rows(path_to(f, "", name), after,
              "select " COLUMNS ", solver, params from perf_db join config on config.id = "
              "perf_db.config order by " COLUMNS ", solver");
}
