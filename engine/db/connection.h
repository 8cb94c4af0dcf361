/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of this directory: the parts of a connection, and the conversion
 * of SQLite's codes into messages. Not for other directories.
 *
 * Threading  one thread at a time for each connection
 */
#include "engine/db/db.h"

#include <sqlite3.h>

struct db {
    sqlite3 *handle;         /* owned */
    char *path;              /* owned */
    sqlite3_stmt **prepared; /* owned, prepared_count of them */
    size_t prepared_count;
    /* owned; prepared in advance, because a rollback must work when memory has run out */
    sqlite3_stmt *rollback;
    bool stuck; /* a failed transaction is still open; nothing is written until it is rolled back */
    bool read_only;
    int log_pages, log_max; /* pages of the log after the last commit; checkpoint at |log_max| */
    _Atomic uint64_t *misreads; /* borrowed; NULL: statements are not repeated */
    unsigned work; /* calls of the progress handler in the current step (foreign files only) */
};

/* Fails with the kiln_code for SQLite's |rc| and the message "cannot <doing> '<path>': <why>;
 * <advice>". */
KILN_MUST_CHECK enum kiln_code db_fail(const struct db *db, int rc, const char *doing,
                                       struct kiln_err *err);
/* If an earlier rollback failed, tries again to roll that transaction back. */
KILN_MUST_CHECK enum kiln_code db_unstick(struct db *db, struct kiln_err *err);
/* Runs |sql|, which must be a constant of this directory, never input. */
KILN_MUST_CHECK enum kiln_code db_exec(struct db *db, const char *sql, const char *doing,
                                       struct kiln_err *err);
/* Returns the number that |sql| yields, or 0 if there is no row. */
KILN_MUST_CHECK enum kiln_code db_number(struct db *db, const char *sql, int64_t *ret_number,
                                         struct kiln_err *err);
/* Returns KILN_UNSUPPORTED unless the schema is up to date. */
KILN_MUST_CHECK enum kiln_code db_check_schema(struct db *db, const struct db_schema *schema,
                                               struct kiln_err *err);
/* Brings the schema up to date in one transaction. */
KILN_MUST_CHECK enum kiln_code db_migrate(struct db *db, const struct db_schema *schema,
                                          struct kiln_err *err);
/* Limits what the file can make SQLite do. Call it before the first statement. */
void db_limit_foreign(struct db *db);
/* Returns KILN_CORRUPT unless |table| exists as an ordinary table with all its columns; the message
 * names the missing part. */
KILN_MUST_CHECK enum kiln_code db_check_table(struct db *db, const struct db_table *table,
                                              struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code db_prepare(struct db *db, const char *const *statements,
                                          size_t statement_count, struct kiln_err *err);
