/* SPDX-License-Identifier: MIT */
#include "tests/faults/invariants.h"

#include "tests/support/test.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* NULL where there is none. */
static sqlite3 *open_database(const char *folder, const char *name)
{
    char path[256];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (access(path, F_OK) != 0)
        return NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    return db;
}

/* The first column of the one row that |sql| answers must be |expected|. */
static void expect_answer(sqlite3 *db, const char *sql, const char *expected)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("'%s': %s", sql, sqlite3_errmsg(db));
    const char *answer = (const char *)sqlite3_column_text(statement, 0);
    if (!answer || strcmp(answer, expected) != 0)
        fail_msg("'%s' answers '%s', not '%s'", sql, answer ? answer : "", expected);
    sqlite3_finalize(statement);
}

/* A file whose first change never came to its end has no tables. */
static int has_table(sqlite3 *db, const char *table)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(
        sqlite3_prepare_v2(db, "select 1 from sqlite_schema where name = ?", -1, &statement, NULL),
        SQLITE_OK);
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    int has = sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return has;
}

void expect_sound_kernels(const char *folder)
{
    static const char *const none[] = {
        /* counters and rows */
        "select count(*) from usage where kernels <> (select count(*) from kernel)",
        "select count(*) from usage where objects <> (select count(*) from object)",
        "select count(*) from usage where stored_bytes <> "
        "(select coalesce(sum(stored_size), 0) from object)",
        "select count(*) from usage where row_bytes <> "
        "(select coalesce(sum(row_bytes), 0) from kernel)",
        "select count(*) from usage_uid u where kernels <> "
        "(select count(*) from kernel where uid = u.uid)",
        /* kernels and objects */
        "select count(*) from kernel where object not in (select id from object)",
        "select count(*) from object where id not in (select object from kernel)",
        "select count(*) from object where stored_size <> length(bytes)",
        "select count(*) from recency where kernel not in (select id from kernel)",
        /* nothing was taken for damaged */
        "select count(*) from quarantine",
    };
    sqlite3 *db = open_database(folder, "kernels.db");
    if (!db)
        return;
    expect_answer(db, "pragma integrity_check", "ok");
    if (has_table(db, "ledger"))
        for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
            expect_answer(db, none[i], "0");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void expect_index_files(sqlite3 *db, const char *folder)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(
        sqlite3_prepare_v2(db, "select count(*) from system_file", -1, &statement, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int listed = sqlite3_column_int(statement, 0), there = 0;
    sqlite3_finalize(statement);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        there += strstr(e->d_name, ".kti") != NULL;
    closedir(dir);
    assert_true(there >= listed);
}

void expect_sound_tuning(const char *folder)
{
    sqlite3 *db = open_database(folder, "tuning.db");
    if (!db)
        return;
    expect_answer(db, "pragma integrity_check", "ok");
    if (has_table(db, "recent_put")) {
        expect_answer(db, "select number + inverse from tally where id = 1", "-1");
        expect_answer(db,
                      "select count(*) from tally where id = 1 and number <> "
                      "(select count(*) from record)",
                      "0");
        expect_answer(db,
                      "select count(*) from tally where id = 2 and number <> "
                      "(select count(*) from system_file)",
                      "0");
        expect_index_files(db, folder);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void expect_no_file(const char *folder, const char *part)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (strstr(e->d_name, part))
            fail_msg("'%s/%s' was left behind", folder, e->d_name);
    closedir(dir);
}
