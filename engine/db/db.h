/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One connection to a SQLite database. Only this directory uses SQLite directly.
 *
 * Role       opens a file as a daemon needs it: WAL, bounded waiting, no trust in the content.
 *            Migrates its schema, and prepares a fixed table of statements
 * Ownership  the connection owns its statements; paths and SQL texts are borrowed for its lifetime
 * Threading  one thread at a time for each connection; several connections concurrently
 *
 * Codes      KILN_CORRUPT the file is damaged or not a database · KILN_FULL the disk is full ·
 *            KILN_BUSY another process has locked it · KILN_DENIED no permission, or the disk is
 *            read-only (a connection for writing is never opened read-only instead) ·
 *            KILN_UNSUPPORTED written by a newer version of this program
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct db;

/* Migration number n is migrations[n - 1]. */
struct db_migration {
    const unsigned char *sql;
    const unsigned long *size;
};

struct db_schema {
    const char *name;
    uint32_t application_id; /* marks the file as kiln's */
    const struct db_migration *migrations;
    unsigned count;
};

struct db_table {
    const char *name;
    const char *const *columns;
    size_t column_count;
};

struct db_options {
    const char *path;
    /* If not empty, the database is this memory, which must stay valid and unchanged. |path| is
     * then only a name for messages, and read_only and immutable must be set. An image has no
     * log. */
    struct bytes image;
    const char *shown; /* name of the file in messages; NULL: |path| is shown */
    /* db_open migrates the file to this schema. NULL: another connection has already done that. */
    const struct db_schema *schema;
    const char *const *statements; /* SQL texts; query_of takes an index of this array */
    size_t statement_count;
    uint64_t value_max; /* maximum size of a stored text or blob, in bytes */
    unsigned cache_kib;
    unsigned log_pages; /* checkpoint the log at this many pages; 0: 1000 */
    bool full_sync;     /* sync at each commit, not only at checkpoints */
    bool read_only;     /* db_open returns KILN_UNSUPPORTED if |schema| is set and the file has
                         * another schema */
    /* Requires read_only. The connection changes no file, and ignores a log without its -shm
     * file. */
    bool leave_files;
    /* Requires read_only, and that nobody writes to the file. The connection takes no lock and
     * reads no log. */
    bool immutable;
    /* Any user may have created or damaged the file. Its schema may use only a small part of
     * SQLite's features, and a step that takes longer than any valid file needs counts as
     * damage. A read that fails with EIO does not count as damage. */
    bool foreign;
    /* Number of statements that met a damaged page, but succeeded when they ran again with pages
     * from the disk: the page was damaged only in memory. Borrowed; requires read_only. NULL:
     * statements do not run again. */
    _Atomic uint64_t *misreads;
    /* A table that the file must have, with these columns; may be NULL. */
    const struct db_table *table;
};

KILN_MUST_CHECK enum kiln_code db_open(const struct db_options *options, struct db **ret_db,
                                       struct kiln_err *err);
void db_destroy(struct db *db);
KILN_DEFINE_AUTO(db)

/* Checks all pages of a |foreign| database, and checks that tables and indices have the same rows.
 * The message of KILN_CORRUPT describes the first damage. */
KILN_MUST_CHECK enum kiln_code db_check_foreign(struct db *db, struct kiln_err *err);
/* Returns how many rows the latest statement changed, without changes by triggers. */
uint64_t db_changes(const struct db *db);
uint64_t db_last_id(const struct db *db);
/* Empties the page cache, so that the next read comes from the file. */
void db_forget_pages(struct db *db);
/* Copies the log into the file and truncates the log. With |full_sync|, the next transaction
 * lengthens the log again. Waits some seconds for readers that still need older pages. If they do
 * not finish, a later checkpoint copies the rest. */
KILN_MUST_CHECK enum kiln_code db_checkpoint(struct db *db, struct kiln_err *err);
/* Like db_checkpoint, but does not wait for readers. Truncates the log only if all of it was
 * copied. */
KILN_MUST_CHECK enum kiln_code db_checkpoint_now(struct db *db, struct kiln_err *err);
/* Copies the log into the file without waiting for readers. The log keeps its length, so the next
 * changes overwrite it, and their syncs need not write a new length. */
KILN_MUST_CHECK enum kiln_code db_checkpoint_in_place(struct db *db, struct kiln_err *err);
/* Returns the length of the log after this connection's last commit. */
unsigned db_log_pages(const struct db *db);

struct transaction {
    struct db *db; /* borrowed; NULL: no transaction is open */
};
void transaction_done(struct transaction *t);
#define TRANSACTION_AUTO __attribute__((cleanup(transaction_done)))
KILN_MUST_CHECK enum kiln_code transaction_begin(struct transaction *t, struct db *db,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code transaction_commit(struct transaction *t, struct kiln_err *err);
