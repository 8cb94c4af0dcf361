/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's tuning files as kilnd writes them: the answer to tuning_export.
 *
 * Ownership  db_exported owns its tree and descriptors
 * Threading  main thread; blocks
 */
#include "cli/kilnctl/admin.h"

#include <limits.h>

/* Descriptors of one answer: the limit of docs/limits.md. */
#define DB_EXPORTED_MAX 64

struct db_exported {
    struct json *answer;      /* owned */
    int fds[DB_EXPORTED_MAX]; /* owned */
    size_t count;
};

/* KILN_E_NOT_FOUND where there is nothing to write; the sentence may be empty. */
CLI_MUST_CHECK int db_exported_get(const struct invocation *invocation, const struct json *ask,
                                   struct db_exported *ret_exported, struct kiln_error *err);
void db_exported_done(struct db_exported *exported); /* accepts a zeroed one */
#define DB_EXPORTED_AUTO __attribute__((cleanup(db_exported_done)))

/* The entry of file |index|: name, kind, database_id, backend, records, bytes. */
const struct json *db_exported_entry(const struct db_exported *exported, size_t index);
/* |directory|/|name|; KILN_E_CORRUPT where |name|, which came from outside, is no plain file's
 * name.
 */
CLI_MUST_CHECK int db_exported_path(const char *directory, const char *name,
                                    char ret_path[PATH_MAX], struct kiln_error *err);
/* File |index| to |path|, with |mode| (0: what the umask leaves of 0666).  KILN_E_IO where there is
 * one already, unless |replace|. */
CLI_MUST_CHECK int db_exported_write(const struct db_exported *exported, size_t index,
                                     const char *path, bool replace, mode_t mode,
                                     struct kiln_error *err);
/* A directory that may be there already, which stays as it is; of a new one |mode| is less the
 * umask.
 */
CLI_MUST_CHECK int db_make_directory(const char *directory, mode_t mode, struct kiln_error *err);
