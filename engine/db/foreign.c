/* SPDX-License-Identifier: MIT */
#include "engine/db/connection.h"

#include <errno.h>
#include <string.h>

/* One step may execute WORK_MAX x WORK_UNIT = 10 million instructions of SQLite's virtual machine.
 * A scan takes about six instructions for each row, and valid files have fewer than a million rows.
 * Without this limit, a table whose pages form a ring would be read forever. */
#define WORK_UNIT 10000
#define WORK_MAX 1000

/* Limits SQLite's features; the schemas of valid files need much less. */
static const struct {
    int feature;
    int max;
} limits[] = {
    { SQLITE_LIMIT_SQL_LENGTH, 100000 },      { SQLITE_LIMIT_COLUMN, 200 },
    { SQLITE_LIMIT_EXPR_DEPTH, 20 },          { SQLITE_LIMIT_COMPOUND_SELECT, 3 },
    { SQLITE_LIMIT_VDBE_OP, 25000 },          { SQLITE_LIMIT_FUNCTION_ARG, 8 },
    { SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50 }, { SQLITE_LIMIT_VARIABLE_NUMBER, 16 },
    { SQLITE_LIMIT_TRIGGER_DEPTH, 1 },        { SQLITE_LIMIT_WORKER_THREADS, 0 },
};

static int on_progress(void *context)
{
    struct db *db = context;
    return ++db->work > WORK_MAX;
}

static void limit_work(struct db *db)
{
    sqlite3_progress_handler(db->handle, WORK_UNIT, on_progress, db);
}

void db_limit_foreign(struct db *db)
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        sqlite3_limit(db->handle, limits[i].feature, limits[i].max);
    limit_work(db);
}

/* Finds out whether a column is stored. |ret_stored| is false for a generated column, because
 * reading it would run an expression from the file. */
static enum kiln_code is_stored(struct db *db, const char *table, const char *column,
                                bool *ret_stored, struct kiln_err *err)
{
    static const char sql[] = "select 1 from pragma_table_xinfo(?1) where hidden = 0 "
                              "and name = ?2 collate nocase";
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(statement, 2, column, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    bool failed = rc != SQLITE_ROW && rc != SQLITE_DONE;
    enum kiln_code code = failed ? db_fail(db, rc, "read", err) : KILN_OK;
    *ret_stored = rc == SQLITE_ROW;
    sqlite3_finalize(statement);
    return code;
}

/* Returns false for a view and for a virtual table. Does not read sqlite_schema: in a crafted file,
 * its rows may differ from the schema that SQLite uses. */
static bool has_column(struct db *db, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(db->handle, "main", table, column, NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

static enum kiln_code check_column(struct db *db, const char *table, const char *column,
                                   struct kiln_err *err)
{
    bool stored = false;
    enum kiln_code rc = KILN_OK;
    if (has_column(db, table, column))
        rc = is_stored(db, table, column, &stored, err);
    if (!rc && !stored)
        rc = kiln_fail(err, KILN_CORRUPT, "table '%s' of '%s' has no column '%s'", table, db->path,
                       column);
    return rc;
}

enum kiln_code db_check_table(struct db *db, const struct db_table *table, struct kiln_err *err)
{
    /* Reads the schema first: if it is damaged, SQLite would report every table as absent. */
    int64_t ignored = 0;
    enum kiln_code rc = db_number(db, "select count(*) from sqlite_schema", &ignored, err);
    if (!rc && !has_column(db, table->name, NULL))
        rc = kiln_fail(err, KILN_CORRUPT, "'%s' has no table '%s'", db->path, table->name);
    for (size_t i = 0; !rc && i < table->column_count; i++)
        rc = check_column(db, table->name, table->columns[i], err);
    return rc;
}

static enum kiln_code read_finding(struct db *db, sqlite3_stmt *statement, struct kiln_err *err)
{
    int rc = sqlite3_step(statement);
    const char *found = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (!found)
        return db_fail(db, rc == SQLITE_ROW ? SQLITE_NOMEM : rc, "check", err);
    const char *line = strrchr(found, '\n');
    return strcmp(found, "ok") == 0 ? KILN_OK
                                    : kiln_fail(err, KILN_CORRUPT, "'%s' is damaged: %.200s",
                                                db->path, line ? line + 1 : found);
}

/* "integrity_check(1)" stops at the first damaged page of a table, before it reads rows. Without
 * the 1, it would also read the rows, and never end if the pages form a ring. */
enum kiln_code db_check_foreign(struct db *db, struct kiln_err *err)
{
    static const char sql[] = "pragma integrity_check(1)";
    sqlite3_stmt *statement = NULL;
    /* Skips CHECK constraints, because testing them would run expressions from the file. */
    enum kiln_code rc = db_exec(db, "pragma ignore_check_constraints = on", "check", err);
    if (rc)
        return rc;
    sqlite3_progress_handler(db->handle, 0, NULL, NULL);
    errno = 0;
    int prepared = sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL);
    rc = prepared == SQLITE_OK ? read_finding(db, statement, err)
                               : db_fail(db, prepared, "check", err);
    sqlite3_finalize(statement);
    limit_work(db);
    return rc;
}
