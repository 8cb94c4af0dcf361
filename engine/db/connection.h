/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Declarations shared by the files of this directory. Not for other directories.
 *
 * Threading  one thread at a time for each connection
 */
#include "engine/db/db.h"

#include <sqlite3.h>

struct db {
    sqlite3 *handle;
    char *path;
    sqlite3_stmt **prepared; /* an element is NULL until the statement's first use */
    size_t prepared_count;
    const char *const *statements; /* borrowed; the SQL of the elements of |prepared| */
    /* owned; prepared in advance, because a rollback must work when memory has run out */
    sqlite3_stmt *rollback;
    bool stuck; /* a transaction could not be rolled back; the connection must roll it back before
                 * other writes */
    bool read_only, full_sync, is_foreign;
    bool has_long_log; /* with |full_sync|: the log was lengthened, see lengthen_log */
    int log_pages, log_max;
    _Atomic uint64_t *misreads; /* borrowed, see db_options; NULL: statements are not repeated */
    unsigned work;
};

/* Converts SQLite's |rc| to a code of kiln with the message "cannot <doing> '<path>': <why>;
 * <advice>". */
KILN_MUST_CHECK enum kiln_code db_fail(const struct db *db, int rc, const char *doing,
                                       struct kiln_err *err);
/* If an earlier rollback failed, tries again to roll that transaction back. */
KILN_MUST_CHECK enum kiln_code db_unstick(struct db *db, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code db_exec(struct db *db, const char *sql, const char *doing,
                                       struct kiln_err *err);
/* Returns 0 if there is no row. */
KILN_MUST_CHECK enum kiln_code db_number(struct db *db, const char *sql, int64_t *ret_number,
                                         struct kiln_err *err);
/* Returns KILN_UNSUPPORTED unless the schema is up to date. */
KILN_MUST_CHECK enum kiln_code db_check_schema(struct db *db, const struct db_schema *schema,
                                               struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code db_migrate(struct db *db, const struct db_schema *schema,
                                          struct kiln_err *err);
/* Limits the SQLite features that the file's schema can use. Call this function before the
 * connection runs its first statement. */
void db_limit_foreign(struct db *db);
/* Returns KILN_CORRUPT if the file lacks the table or one of its columns; the message names what is
 * missing. */
KILN_MUST_CHECK enum kiln_code db_check_table(struct db *db, const struct db_table *table,
                                              struct kiln_err *err);
/* |statements| must stay valid while the database is open. */
KILN_MUST_CHECK enum kiln_code db_keep_statements(struct db *db, const char *const *statements,
                                                  size_t statement_count, struct kiln_err *err);
/* Prepares all statements now. Fails if the file lacks a table or column that they use. */
KILN_MUST_CHECK enum kiln_code db_prepare_all(struct db *db, struct kiln_err *err);
/* Returns SQLite's code. Does nothing if the statement is prepared. */
int db_prepare_one(struct db *db, size_t statement);
