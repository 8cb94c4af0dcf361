/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A database file for other programs, written once as a whole in one transaction.
 *
 * Role       creates a file with page size 4096, in rollback mode, and with nothing kiln-specific
 *            in its header; the same statements in the same order give the same bytes
 * Ownership  the caller owns the connection, and ends it with db_new_file_finish or
 *            db_new_file_abandon; the file remains only if db_new_file_finish succeeds
 * Threading  one thread at a time
 */
#include "engine/db/db.h"

struct db_new_file_options {
    const char *path; /* must not exist; created with mode 0644 minus the umask */
    const char *setup;
    const char *const *statements;
    size_t statement_count;
    uint64_t value_max; /* bytes */
};

KILN_MUST_CHECK enum kiln_code db_new_file(const struct db_new_file_options *options,
                                           struct db **ret_db, struct kiln_err *err);
/* Commits and closes the file. On failure, removes it. Syncs nothing, because kilnd sends such
 * files to clients and removes them. */
KILN_MUST_CHECK enum kiln_code db_new_file_finish(struct db *db, struct kiln_err *err);
/* Also removes the file. Accepts NULL. */
void db_new_file_abandon(struct db *db);

KILN_MUST_CHECK enum kiln_code db_sync_file(const char *path, struct kiln_err *err);
