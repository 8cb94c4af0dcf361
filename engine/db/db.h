/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One connection to a SQLite database; this folder is the only one that knows SQLite.
 *
 * Role       opens a file the way a daemon needs it (WAL, bounded waiting, distrust of what lies
 *            in it), brings its schema up to date, prepares a fixed table of statements
 * Ownership  the connection owns its statements; paths and SQL texts are borrowed for its life
 * Threading  one thread at a time for each connection; many connections at once
 *
 * Codes      KILN_CORRUPT the file is damaged or no database · KILN_FULL no room on the disk ·
 *            KILN_BUSY another process holds it · KILN_DENIED permissions ·
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

struct db_options {
    const char *path;
    const struct db_schema *schema; /* brought up to date; NULL: another connection has done it */
    const char *const *statements;  /* a query is named by its place in this table */
    size_t statement_count;
    uint64_t value_most; /* bytes; no stored text or blob is longer */
    unsigned cache_kib;  /* page cache */
    bool full_sync;      /* each commit is on the disk when it returns; else when checkpointed */
    bool read_only;
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
/* Gives the space of deleted rows back to the filesystem, in short transactions. */
KILN_MUST_CHECK enum kiln_code db_shrink(struct db *db, struct kiln_err *err);

/* A write transaction; rolled back at the end of its scope unless it was committed. */
struct transaction {
    struct db *db; /* borrowed; NULL when none is open */
};
void transaction_done(struct transaction *t);
#define TRANSACTION_AUTO __attribute__((cleanup(transaction_done)))
KILN_MUST_CHECK enum kiln_code transaction_begin(struct transaction *t, struct db *db,
                                                 struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code transaction_commit(struct transaction *t, struct kiln_err *err);
