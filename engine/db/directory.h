/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The directory of a database. Only one process may use the directory at a time.
 *
 * Role       refuses a directory in which the file is not safe (on a network filesystem, or
 *            writable by others), and a directory that another process uses; moves a damaged
 *            file aside
 * Ownership  the struct owns its descriptors; texts of the options are borrowed for its lifetime
 * Threading  one thread at a time
 */
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <sys/stat.h>

struct db_directory_options {
    const char *path;
    const char *what;
    const char *setting; /* the option that selects another directory, such as "--state-dir" */
    /* For users other than root, the environment variable that selects another directory, such as
     * "XDG_STATE_HOME". */
    const char *variable;
    const char *lock; /* file name in the directory */
    const char *file; /* for messages: "the database" */
    bool is_cache;
    bool allow_network_fs;
};

struct db_directory {
    struct db_directory_options options;
    int fd, lock; /* owned; -1: not open */
};

/* Creates the directory with mode 0700 if absent, and locks it. Returns KILN_BUSY if another
 * process uses it, KILN_DENIED if other users may access or replace it, and KILN_UNSUPPORTED if
 * it is on a network filesystem. */
KILN_MUST_CHECK enum kiln_code db_directory_open(const struct db_directory_options *options,
                                                 struct db_directory *ret_directory,
                                                 struct kiln_err *err);
void db_directory_close(struct db_directory *directory); /* also after a failed db_directory_open */
/* Does not open the directory. */
void db_directory_init(struct db_directory *directory, const struct db_directory_options *options);
/* Opens and locks the directory if it is not open, or if its path now leads to another one. If
 * |writing| is false, creates and changes nothing, so the directory or the lock may be missing
 * afterwards. */
KILN_MUST_CHECK enum kiln_code db_directory_refresh(struct db_directory *directory, bool writing,
                                                    struct kiln_err *err);

/* Returns KILN_NOT_FOUND without a message if |name| is absent, KILN_INVALID if it is not a
 * regular file, and KILN_DENIED if other users may access it. Does not open the file, because
 * closing the descriptor would drop SQLite's locks on it. */
KILN_MUST_CHECK enum kiln_code db_directory_check_file(const struct db_directory *directory,
                                                       const char *name, struct stat *ret_seen,
                                                       struct kiln_err *err);
/* Renames |name| and SQLite's companion files to |name|.damaged-<seconds>, or to
 * |name|.damaged-<seconds>.<n> if that exists. |name| is renamed first: a log without its
 * database does no harm, but a database without its log would lose changes. */
KILN_MUST_CHECK enum kiln_code db_directory_move_aside(const struct db_directory *directory,
                                                       const char *name, char ret_aside[96],
                                                       struct kiln_err *err);
/* Also removes SQLite's companion files. Ignores failures. */
void db_directory_remove(const struct db_directory *directory, const char *name);
/* Makes renames and removals survive a power loss. */
KILN_MUST_CHECK enum kiln_code db_directory_sync(const struct db_directory *directory,
                                                 struct kiln_err *err);
