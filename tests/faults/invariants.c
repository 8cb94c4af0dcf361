/* SPDX-License-Identifier: MIT */
#include "tests/faults/invariants.h"

#include "tests/support/test.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static sqlite3 *open_database(const char *directory, const char *name)
{
    char path[256];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (access(path, F_OK) != 0)
        return NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    return db;
}

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

static unsigned number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("'%s': %s", sql, sqlite3_errmsg(db));
    int number = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return (unsigned)number;
}

static void expect_none(sqlite3 *db, const char *const *counts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_answer(db, counts[i], "0");
}
#define EXPECT_NONE(db, counts) expect_none(db, counts, sizeof(counts) / sizeof((counts)[0]))

/* Checks SQLite's integrity. Returns false if the database's version is 0; it must then be empty.
 * Otherwise its version must be |version|, and no foreign key may be broken. */
static bool expect_whole(sqlite3 *db, unsigned version)
{
    char text[16];
    static const char *const nothing[] = { "select count(*) from sqlite_schema" };
    static const char *const none[] = { "select count(*) from pragma_foreign_key_check" };
    expect_answer(db, "pragma integrity_check", "ok");
    if (number_of(db, "pragma user_version") == 0) {
        EXPECT_NONE(db, nothing);
        return false;
    }
    snprintf(text, sizeof(text), "%u", version);
    expect_answer(db, "pragma user_version", text);
    EXPECT_NONE(db, none);
    return true;
}

static const char *const kernels_none[] = {
    "select count(*) from usage where kernels <> (select count(*) from kernel)",
    "select count(*) from usage where objects <> (select count(*) from object)",
    "select count(*) from usage where stored_bytes <> "
    "(select coalesce(sum(stored_size), 0) from object)",
    "select count(*) from usage where raw_bytes <> "
    "(select coalesce(sum(raw_size), 0) from object)",
    "select count(*) from usage where row_bytes <> "
    "(select coalesce(sum(row_bytes), 0) from kernel)",
    "select count(*) from usage_uid u where kernels <> "
    "(select count(*) from kernel where uid = u.uid)",
    "select count(*) from usage_uid u where bytes <> "
    "(select sum(k.row_bytes + o.stored_size) from kernel k join object o on o.id = k.object "
    "where k.uid = u.uid)",
    "select count(*) from kernel where uid not in (select uid from usage_uid)",
    "select count(*) from usage where kernels <> "
    "(select coalesce(sum(kernels), 0) from usage_uid)",
    "select count(*) from kernel where object not in (select id from object)",
    "select count(*) from object where id not in (select object from kernel)",
    "select count(*) from object where piece_set = 0 and stored_size <> length(bytes)",
    "select count(*) from object o where piece_set > 0 and stored_size <> "
    "(select coalesce(sum(length(bytes)), 0) from piece p where p.piece_set = o.piece_set)",
    /* each kernel has one row in the order of eviction (recency), and each such row has a kernel */
    "select count(*) from recency where kernel not in (select id from kernel)",
    "select count(*) from kernel where id not in (select kernel from recency)",
    "select count(*) from recency r join kernel k on k.id = r.kernel "
    "where r.uid <> k.uid or r.scope <> k.scope",
    "select count(*) from quarantine",
};

void expect_sound_kernels(const char *directory)
{
    sqlite3 *db = open_database(directory, "kernels.db");
    if (!db)
        return;
    if (expect_whole(db, KERNELS_VERSION))
        EXPECT_NONE(db, kernels_none);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Returns how many rows of system_file have the name of the index file in their packed content. */
static unsigned rows_that_name(sqlite3 *db, const char *file)
{
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "select count(*) from system_file "
                                        "where instr(content, cast(? as blob)) > 0",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    sqlite3_bind_text(statement, 1, file, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int rows = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return (unsigned)rows;
}

static bool is_index(const char *name)
{
    size_t size = strlen(name);
    return size > 4 && strcmp(name + size - 4, ".kti") == 0;
}

/* Each row of system_file must name one index file in |directory|, and no file may have two rows.
 * Files without a row are allowed unless |is_tidy|: a killed import leaves one, which the next
 * start of kilnd removes. */
static void expect_index_files(sqlite3 *db, const char *directory, bool is_tidy)
{
    unsigned listed = number_of(db, "select count(*) from system_file"), named = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!is_index(e->d_name) && !(is_tidy && strstr(e->d_name, ".kti")))
            continue;
        unsigned rows = is_index(e->d_name) ? rows_that_name(db, e->d_name) : 0;
        if (rows > 1 || (is_tidy && rows == 0))
            fail_msg("the index '%s' is named by %u rows", e->d_name, rows);
        named += rows;
    }
    closedir(dir);
    if (named != listed)
        fail_msg("%u indices are listed, and %u of them are there", listed, named);
}

static void expect_tuning(const char *directory, bool is_tidy)
{
    static const char *const none[] = {
        "select count(*) from tally where inverse <> -1 - number",
        "select count(*) - 2 from tally",
        "select count(*) from tally where id = 1 and number <> (select count(*) from record)",
        "select count(*) from tally where id = 2 and number <> (select count(*) from system_file)",
        "select count(*) from record where length(content) = 0 or length(key) = 0",
    };
    sqlite3 *db = open_database(directory, "tuning.db");
    if (!db)
        return;
    if (expect_whole(db, TUNING_VERSION)) {
        EXPECT_NONE(db, none);
        expect_index_files(db, directory, is_tidy);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void expect_sound_tuning(const char *directory) { expect_tuning(directory, false); }

void expect_tidy_tuning(const char *directory)
{
    expect_tuning(directory, true);
    expect_no_file(directory, "damaged");
    expect_no_file(directory, ".new");
    expect_no_file(directory, ".salvaged");
    expect_no_file(directory, ".whole");
}

void expect_no_file(const char *directory, const char *part)
{
    DIR *dir = opendir(directory);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (strstr(e->d_name, part))
            fail_msg("'%s/%s' was left behind", directory, e->d_name);
    closedir(dir);
}
