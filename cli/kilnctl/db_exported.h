/* SPDX-License-Identifier: MIT */
#pragma once

/* Gets tuning files in MIOpen's formats from kilnd (its reply to tuning_export), and writes them.
 *
 * Ownership  db_exported owns kilnd's reply and descriptors
 * Threading  main thread; blocks */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/new_file.h"

#include <limits.h>

#define DB_EXPORTED_MAX 64

struct db_exported {
    struct json *answer;
    int fds[DB_EXPORTED_MAX];
    size_t count;
};

/* Requests the files. Returns KILN_E_NOT_FOUND if kilnd has no records to export. */
CLI_MUST_CHECK int db_exported_get(const struct invocation *invocation, const struct json *ask,
                                   struct db_exported *ret_exported, struct kiln_error *err);
void db_exported_done(struct db_exported *exported);
#define DB_EXPORTED_AUTO __attribute__((cleanup(db_exported_done)))

/* Returns the part of kilnd's reply about file |index|: name, kind, database_id, backend, records,
 * bytes. */
const struct json *db_exported_entry(const struct db_exported *exported, size_t index);
/* Writes |directory|/|name| into |ret_path|. Returns KILN_E_CORRUPT unless |name|, which comes from
 * kilnd, is a plain file name. */
CLI_MUST_CHECK int db_exported_path(const char *directory, const char *name,
                                    char ret_path[PATH_MAX], struct kiln_error *err);
CLI_MUST_CHECK int db_exported_write(const struct db_exported *exported, size_t index,
                                     const struct new_file *file, struct kiln_error *err);
/* Writes a file that may be an SQLite database. Returns KILN_E_IO if the file exists and
 * |replace| is not set. Returns KILN_E_BUSY if there is an SQLite log next to the file, because a
 * program may have the existing database open. */
CLI_MUST_CHECK int db_write(const struct new_file *file, struct kiln_error *err);
CLI_MUST_CHECK int db_make_directory(const char *directory, mode_t mode, struct kiln_error *err);
