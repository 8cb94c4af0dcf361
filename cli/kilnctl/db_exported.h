/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's tuning files as kilnd exports them in its reply to tuning_export.
 *
 * Ownership  db_exported owns its tree and descriptors
 * Threading  main thread; blocks
 */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/new_file.h"

#include <limits.h>

#define DB_EXPORTED_MAX 64

struct db_exported {
    struct json *answer;
    int fds[DB_EXPORTED_MAX];
    size_t count;
};

/* Returns KILN_E_NOT_FOUND, possibly without a message, if there is nothing to write. */
CLI_MUST_CHECK int db_exported_get(const struct invocation *invocation, const struct json *ask,
                                   struct db_exported *ret_exported, struct kiln_error *err);
void db_exported_done(struct db_exported *exported);
#define DB_EXPORTED_AUTO __attribute__((cleanup(db_exported_done)))

/* Returns the entry of file |index|: name, kind, database_id, backend, records, bytes. */
const struct json *db_exported_entry(const struct db_exported *exported, size_t index);
/* Builds |directory|/|name|.  |name| is not trusted: returns KILN_E_CORRUPT unless it is a plain
 * file name. */
CLI_MUST_CHECK int db_exported_path(const char *directory, const char *name,
                                    char ret_path[PATH_MAX], struct kiln_error *err);
CLI_MUST_CHECK int db_exported_write(const struct db_exported *exported, size_t index,
                                     const struct new_file *file, struct kiln_error *err);
/* Returns KILN_E_IO if the file exists and may not be replaced, and KILN_E_BUSY if the existing
 * database is in use. */
CLI_MUST_CHECK int db_write(const struct new_file *file, struct kiln_error *err);
CLI_MUST_CHECK int db_make_directory(const char *directory, mode_t mode, struct kiln_error *err);
