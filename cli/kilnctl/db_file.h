/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds and opens MIOpen's tuning files, and parses their names.
 *
 * Role       wraps engine/miopen's parser of tuning-file names for the rest of kilnctl
 * Ownership  db_files owns its paths; the caller owns descriptors
 * Threading  one thread; blocks
 */
#include "cli/kilnctl/command.h"

#include <stdbool.h>
#include <stddef.h>

struct db_file_name {
    char kind[8];
    char database_id[64];
    char backend[16]; /* for find "HIP", "HIP.fusion", ...; for perf "" or "batchnorm" */
    bool is_user;
    bool is_sqlite;
    /* false if only kiln knows the device, as with "sm_90_132" */
    bool is_miopens;
};
/* |name| may be a path.  Returns false if |name| does not name a tuning file. */
bool db_file_name(const char *name, struct db_file_name *ret_name);
/* Writes MIOpen's name of a system file, such as "gfx90a68.HIP.fdb.txt".  The system file has the
 * same kind of content as |name|.  Returns false if |name| is not the name of a tuning file. */
bool db_file_system_name(const char *name, char ret_name[128]);

/* Writes the part of a database id that all devices of an arch have in common, such as "gfx90a".
 * Returns false if |id| is not a database id. */
bool db_file_device(const char *id, char ret_device[64]);

struct db_files {
    char **paths;
    size_t count;
};
/* Lists |word| itself or, if it is a directory, its tuning files in the order of their names.
 * Returns KILN_E_NOT_FOUND if the directory has none. */
CLI_MUST_CHECK int db_files_of(const char *word, struct db_files *ret_files,
                               struct kiln_error *err);
void db_files_done(struct db_files *files);
#define DB_FILES_AUTO __attribute__((cleanup(db_files_done)))

#define DB_NOTE_MAX 512
/* Opens the file or, if MIOpen may have the database open, a copy that includes its log.
 * |ret_note| says what could not be read; usually "".  Returns KILN_E_FULL for a file that kilnd
 * would refuse for its size, and KILN_E_TIMED_OUT if the copy takes longer than --timeout. */
CLI_MUST_CHECK int db_file_open(const struct invocation *invocation, const char *path, int *ret_fd,
                                char ret_note[DB_NOTE_MAX], struct kiln_error *err);
