/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A database file that other programs will read: written once, as a whole, by one transaction.
 *
 * Role       page size 4096, rollback journal, nothing of kiln's own in its header; the same
 *            statements in the same order give the same bytes
 * Ownership  as db_open; the file stays only if db_new_file_finish succeeds
 * Threading  one thread at a time
 */
#include "engine/db/db.h"

struct db_new_file_options {
    const char *path;  /* must not exist; mode 0644, less the umask */
    const char *setup; /* SQL that makes tables and indices */
    const char *const *statements;
    size_t statement_count;
    uint64_t value_max; /* bytes */
};

/* The transaction is open when this returns. */
KILN_MUST_CHECK enum kiln_code db_new_file(const struct db_new_file_options *options,
                                           struct db **ret_db, struct kiln_err *err);
/* Commits, closes, syncs the file and its directory.  Takes |db| in either case; on failure the
 * file is gone. */
KILN_MUST_CHECK enum kiln_code db_new_file_finish(struct db *db, struct kiln_err *err);
/* Closes and removes the file.  Accepts NULL. */
void db_new_file_abandon(struct db *db);

/* The file's content and its name are on the disk when this returns. */
KILN_MUST_CHECK enum kiln_code db_sync_file(const char *path, struct kiln_err *err);
