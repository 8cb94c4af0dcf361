/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * MIOpen's tuning files as kilnctl meets them: by their names, in directories, open.
 *
 * Role       all that kilnctl knows of engine/miopen: what the name of a tuning file tells
 * Ownership  db_files owns its paths; descriptors are the caller's
 * Threading  one thread; blocks
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stddef.h>

/* What a file's name tells. */
struct db_file_name {
    char kind[8];         /* "find", "perf" */
    char database_id[64]; /* "gfx90a68" */
    char backend[16];     /* "HIP"; "" of perf */
    bool is_user;
    bool is_sqlite;
    bool is_miopens; /* else of a device that kiln alone knows: "sm_90_132" */
};
/* False where |name| (a path will do) is not the name of a tuning file. */
bool db_file_name(const char *name, struct db_file_name *ret_name);
/* How MIOpen calls the system's file of the same content as the file |name|:
 * "gfx90a68.HIP.fdb.txt". False as above. */
bool db_file_system_name(const char *name, char ret_name[128]);

struct db_files {
    char **paths; /* owned, and so is each */
    size_t count;
};
/* |word| itself; of a directory, all tuning files in it, in order of their names.  KILN_E_NOT_FOUND
 * when it has none. */
CLI_MUST_CHECK int db_files_of(const char *word, struct db_files *ret_files,
                               struct kiln_error *err);
void db_files_done(struct db_files *files); /* accepts a zeroed one */
#define DB_FILES_AUTO __attribute__((cleanup(db_files_done)))

#define DB_NOTE_MAX 512
/* As it stands; of a database that MIOpen has open a copy with its log in it.  |ret_note|: what
 * of it cannot be had; "" as a rule. */
CLI_MUST_CHECK int db_file_open(const char *path, int *ret_fd, char ret_note[DB_NOTE_MAX],
                                struct kiln_error *err);
