/* SPDX-License-Identifier: MIT */
#pragma once

/* Finds and opens MIOpen's tuning files, and parses their names.
 *
 * Role       wraps engine/miopen's parser of file names
 * Ownership  db_files owns its paths; the caller owns descriptors
 * Threading  one thread; blocks */
#include "cli/kilnctl/command.h"

#include <stdbool.h>
#include <stddef.h>

struct db_file_name {
    char kind[8];
    char database_id[64];
    char backend[16]; /* of FindDb: "HIP", "HIP.fusion", ...; of PerfDb: "" or "batchnorm" */
    bool is_user;
    bool is_sqlite;
    /* whether MIOpen also knows the device; false for kiln's own ids, such as "sm_90_132" */
    bool is_miopens;
};
/* Parses the name of a tuning file. |name| may be a path. Returns false if it is not the name of a
 * tuning file. */
bool db_file_name(const char *name, struct db_file_name *ret_name);
/* Writes the name that MIOpen would give to a system file of the same kind and device as |name|,
 * such as "gfx90a68.HIP.fdb.txt". Returns false if |name| is not the name of a tuning file. */
bool db_file_system_name(const char *name, char ret_name[128]);

/* Writes the arch of a database id, such as "gfx90a" for "gfx90a68". Returns false if |id| is not a
 * database id. */
bool db_file_device(const char *id, char ret_device[64]);

struct db_files {
    char **paths;
    size_t count;
};
/* If |word| is a directory, lists its tuning files by name, otherwise only |word|. Returns
 * KILN_E_NOT_FOUND if the directory has no tuning file. */
CLI_MUST_CHECK int db_files_of(const char *word, struct db_files *ret_files,
                               struct kiln_error *err);
void db_files_done(struct db_files *files);
#define DB_FILES_AUTO __attribute__((cleanup(db_files_done)))

#define DB_NOTE_MAX 512
/* Opens a tuning file. Opens a copy instead if MIOpen may have the database open; the copy includes
 * the write-ahead log. |ret_note| says which data could not be read, usually "". Returns
 * KILN_E_FULL if kilnd would refuse the file for its size, and KILN_E_TIMED_OUT if copying takes
 * longer than --timeout. */
CLI_MUST_CHECK int db_file_open(const struct invocation *invocation, const char *path, int *ret_fd,
                                char ret_note[DB_NOTE_MAX], struct kiln_error *err);
