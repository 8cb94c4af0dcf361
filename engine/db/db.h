/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One connection to a SQLite database; this directory is the only one that knows SQLite.
 *
 * Role       opens a file the way a daemon needs it (WAL, bounded waiting, distrust of what lies
 *            in it), brings its schema up to date, prepares a fixed table of statements
 * Ownership  the connection owns its statements; paths and SQL texts are borrowed for its life
 * Threading  one thread at a time for each connection; many connections at once
 *
 * Codes      KILN_CORRUPT the file is damaged or no database · KILN_FULL no room on the disk ·
 *            KILN_BUSY another process holds it · KILN_DENIED permissions, or a disk that can only
 *            be read: what is opened to be written to never becomes a connection that only reads ·
 *            KILN_UNSUPPORTED written by a newer version of this program
 */
#include "common/bytes.h"
#include "common/err.h"

struct db;

/* A schema is a row of numbered migrations; number n is migrations[n - 1]. */
struct db_migration {
    const unsigned char *sql; /* embedded by kiln_embed() */
    const unsigned long *size;
};

struct db_schema {
    const char *name;        /* for sentences: "kernels" */
    uint32_t application_id; /* marks the file as ours */
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
    /* Not empty: the file's bytes, which stay where they are and as they are while it is open; it
     * has no write-ahead log.  Then |path| is its name for sentences; read_only and immutable. */
    struct bytes image;
    const char *shown;              /* what sentences call the file; NULL: |path| */
    const struct db_schema *schema; /* brought up to date; NULL: another connection has done it */
    const char *const *statements;  /* a query is named by its place in this table */
    size_t statement_count;
    uint64_t value_max; /* bytes; no stored text or blob is longer */
    unsigned cache_kib; /* page cache */
    unsigned log_pages; /* the write-ahead log is copied back at this many; 0: 1000 */
    bool full_sync;     /* each commit is on the disk when it returns; else when checkpointed */
    bool read_only;     /* with a schema: KILN_UNSUPPORTED unless the file is up to date */
    /* read_only, and no file is made or changed: an existing write-ahead log counts if its -shm
     * is there too. */
    bool leave_files;
    /* read_only, and nobody writes to the file: takes no lock, looks at no write-ahead log. */
    bool immutable;
    /* Anybody may have made or damaged the file: its schema gets no more than a small share of
     * SQLite's powers, and a step that works for longer than any honest file needs is damage. */
    bool foreign;
    const struct db_table *table; /* must be there, a table, with these columns; NULL: no check */
};

KILN_MUST_CHECK enum kiln_code db_open(const struct db_options *options, struct db **ret_db,
                                       struct kiln_err *err);
void db_destroy(struct db *db);
KILN_DEFINE_AUTO(db)

/* Rows that the latest statement changed by itself; those of triggers are not counted. */
uint64_t db_changes(const struct db *db);
uint64_t db_last_id(const struct db *db);
/* The next read sees the file, not a page read earlier. */
void db_forget_pages(struct db *db);
/* Copies the write-ahead log into the file and cuts it to nothing.  Where readers are in the way it
 * waits some seconds; they only mean that it is done later. */
KILN_MUST_CHECK enum kiln_code db_checkpoint(struct db *db, struct kiln_err *err);
/* The same without waiting, for where others wait: copies what no reader needs. */
KILN_MUST_CHECK enum kiln_code db_checkpoint_now(struct db *db, struct kiln_err *err);

/* A write transaction; rolled back at the end of its scope unless it was committed. */
struct transaction {
    struct db *db; /* borrowed; NULL when none is open */
};
void transaction_done(struct transaction *t);
#define TRANSACTION_AUTO __attribute__((cleanup(transaction_done)))
KILN_MUST_CHECK enum kiln_code transaction_begin(struct transaction *t, struct db *db,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code transaction_commit(struct transaction *t, struct kiln_err *err);
