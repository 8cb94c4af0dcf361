/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the files of this directory share: the connection's parts and how SQLite's codes become
 * sentences.  Not for other directories.
 */
#include "engine/db/db.h"

#include <sqlite3.h>

struct db {
    sqlite3 *handle;         /* owned */
    char *path;              /* owned */
    sqlite3_stmt **prepared; /* owned, prepared_count of them */
    size_t prepared_count;
    sqlite3_stmt *rollback; /* owned; prepared ahead, as it is needed where memory has run out */
    bool stuck; /* a failed transaction is open still: nothing is written until it is not */
    bool read_only;
    unsigned work; /* of the step under way, in calls of the progress handler; foreign files */
};

/* "cannot <doing> '<path>': <why>; <advice>" with the code that |rc| stands for. */
KILN_MUST_CHECK enum kiln_code db_fail(const struct db *db, int rc, const char *doing,
                                       struct kiln_err *err);
/* Ends a failed transaction that could not be rolled back, where there is one. */
KILN_MUST_CHECK enum kiln_code db_unstick(struct db *db, struct kiln_err *err);
/* Runs |sql|, which this directory wrote. */
KILN_MUST_CHECK enum kiln_code db_exec(struct db *db, const char *sql, const char *doing,
                                       struct kiln_err *err);
/* The number that |sql| answers with, 0 when there is no row. */
KILN_MUST_CHECK enum kiln_code db_number(struct db *db, const char *sql, int64_t *ret_number,
                                         struct kiln_err *err);
/* KILN_UNSUPPORTED unless the schema is up to date. */
KILN_MUST_CHECK enum kiln_code db_check_schema(struct db *db, const struct db_schema *schema,
                                               struct kiln_err *err);
/* Brings the schema up to date in one transaction. */
KILN_MUST_CHECK enum kiln_code db_migrate(struct db *db, const struct db_schema *schema,
                                          struct kiln_err *err);
/* Bounds what the file can make SQLite do; before the first statement. */
void db_distrust(struct db *db);
/* KILN_CORRUPT, saying what is missing, unless |table| is there as a plain table. */
KILN_MUST_CHECK enum kiln_code db_check_table(struct db *db, const struct db_table *table,
                                              struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code db_prepare(struct db *db, const char *const *statements,
                                          size_t statement_count, struct kiln_err *err);
