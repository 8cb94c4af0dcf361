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
 *            KILN_BUSY another process holds it · KILN_DENIED no permission, or the disk is
 *            read-only (a connection for writing is never opened read-only instead) ·
 *            KILN_UNSUPPORTED written by a newer version of this program
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct db;

/* A schema is a sequence of numbered migrations; number n is migrations[n - 1]. */
struct db_migration {
    const unsigned char *sql; /* embedded by kiln_embed() */
    const unsigned long *size;
};

struct db_schema {
    const char *name;        /* for messages: "kernels" */
    uint32_t application_id; /* is stored in the file and marks it as kiln's */
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
    /* If this is not empty, the database is this memory, which must stay valid and unchanged while
     * the connection is open. |path| is then only a name for messages, and read_only and immutable
     * must be set. An image has no write-ahead log. */
    struct bytes image;
    const char *shown; /* name of the file in messages; NULL: |path| */
    /* db_open migrates the file to this schema. NULL: another connection has already done it. */
    const struct db_schema *schema;
    const char *const *statements; /* a query is identified by its index in this table */
    size_t statement_count;
    uint64_t value_max; /* bytes; no stored text or blob is longer */
    unsigned cache_kib; /* size of the page cache */
    unsigned log_pages; /* checkpoint the write-ahead log at this many pages; 0: 1000 */
    bool full_sync;     /* sync the disk at each commit, not only at checkpoints */
    bool read_only;     /* if |schema| is set, db_open returns KILN_UNSUPPORTED unless the file has
                         * this schema */
    /* Requires read_only. No file is created or changed. An existing write-ahead log is ignored
     * unless its -shm file exists, too. */
    bool leave_files;
    /* Requires read_only. The caller ensures that nobody writes to the file, so no lock is taken
     * and no write-ahead log is read. */
    bool immutable;
    /* True if any user may have created or damaged the file. Its schema may then use only a small
     * part of SQLite's features, and a step that takes longer than any valid file needs counts as
     * damage. */
    bool foreign;
    /* Borrowed; used only with read_only. If it is not NULL, a statement that meets a damaged page
     * runs a second time and reads from the disk, because the page may be damaged only in memory.
     * This number counts the statements that then succeed. */
    _Atomic uint64_t *misreads;
    const struct db_table *table; /* a table that must exist with these columns; NULL: no check */
};

KILN_MUST_CHECK enum kiln_code db_open(const struct db_options *options, struct db **ret_db,
                                       struct kiln_err *err);
void db_destroy(struct db *db);
KILN_DEFINE_AUTO(db)

/* Checks all pages of a |foreign| database, and that its tables and indices have the same rows.
 * Returns KILN_CORRUPT with a message about the first damage. Runs in one step, which takes longer
 * the larger the file is. */
KILN_MUST_CHECK enum kiln_code db_check_foreign(struct db *db, struct kiln_err *err);
/* Returns how many rows the latest statement itself changed, without changes by triggers. */
uint64_t db_changes(const struct db *db);
uint64_t db_last_id(const struct db *db);
/* Drops cached pages, so that the next read comes from the file. */
void db_forget_pages(struct db *db);
/* Copies the write-ahead log into the file and truncates the log. Waits some seconds for readers.
 * If they remain, a later checkpoint copies the rest. */
KILN_MUST_CHECK enum kiln_code db_checkpoint(struct db *db, struct kiln_err *err);
/* Like db_checkpoint, but without waiting, for callers that must not block. Copies only pages that
 * no reader needs. */
KILN_MUST_CHECK enum kiln_code db_checkpoint_now(struct db *db, struct kiln_err *err);
/* Like db_checkpoint_now, but does not truncate the log: the next changes overwrite it, so that
 * their syncs need not write the log's size. */
KILN_MUST_CHECK enum kiln_code db_checkpoint_in_place(struct db *db, struct kiln_err *err);
/* Returns how many pages the log had after this connection's last commit. */
unsigned db_log_pages(const struct db *db);

/* A write transaction; rolled back at the end of its scope unless it was committed. */
struct transaction {
    struct db *db; /* borrowed; NULL when no transaction is open */
};
void transaction_done(struct transaction *t);
#define TRANSACTION_AUTO __attribute__((cleanup(transaction_done)))
KILN_MUST_CHECK enum kiln_code transaction_begin(struct transaction *t, struct db *db,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code transaction_commit(struct transaction *t, struct kiln_err *err);
