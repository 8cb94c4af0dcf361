/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The directory of a database that belongs to one process at a time.
 *
 * Role       refuses a directory where the file is not safe (network filesystem, others may write)
 * and one that another process uses; moves a damaged file out of the way Ownership  the directory
 * owns its descriptors; texts of the options are borrowed for its life Threading  one thread at a
 * time
 */
#include "common/cleanup.h"
#include "common/err.h"

#include <sys/stat.h>

struct db_directory_options {
    const char *path;
    const char *what;     /* for sentences: "state directory" */
    const char *setting;  /* what sets another one: "--state-dir" */
    const char *variable; /* likewise, for who is not root: "XDG_STATE_HOME" */
    const char *lock;     /* name of the lock file in it */
    const char *file;     /* for messages: "the database" */
    bool is_cache;        /* tagged so for backup programs (CACHEDIR.TAG) */
    bool allow_network_fs;
};

struct db_directory {
    struct db_directory_options options;
    int fd, lock; /* owned; -1: not open */
};

/* Made if absent, mode 0700; locked when this returns.  KILN_BUSY: another process has it;
 * KILN_DENIED: not ours alone; KILN_UNSUPPORTED: a network filesystem. */
KILN_MUST_CHECK enum kiln_code db_directory_open(const struct db_directory_options *options,
                                                 struct db_directory *ret_directory,
                                                 struct kiln_err *err);
void db_directory_close(struct db_directory *directory); /* accepts one that failed to open */
/* Of a zeroed directory with its options: not open. */
void db_directory_init(struct db_directory *directory, const struct db_directory_options *options);
/* Opens what is not open, or is no longer at its place: the directory, its lock.  Not |writing|:
 * makes and changes nothing; there may be no directory then, and no lock to take. */
KILN_MUST_CHECK enum kiln_code db_directory_refresh(struct db_directory *directory, bool writing,
                                                    struct kiln_err *err);

/* KILN_NOT_FOUND without a sentence where |name| is absent; KILN_INVALID where it is no file,
 * KILN_DENIED where it is not ours alone.  Opens nothing: closing a descriptor drops SQLite's
 * locks. */
KILN_MUST_CHECK enum kiln_code db_directory_look(const struct db_directory *directory,
                                                 const char *name, struct stat *ret_seen,
                                                 struct kiln_err *err);
/* |name| and what SQLite keeps beside it become |name|.damaged-<seconds>, or ...-<seconds>.<n>
 * where that is taken.  |name| goes first: a log without its file does no harm. */
KILN_MUST_CHECK enum kiln_code db_directory_move_aside(const struct db_directory *directory,
                                                       const char *name, char ret_aside[96],
                                                       struct kiln_err *err);
/* |name| and what SQLite keeps beside it; best effort. */
void db_directory_remove(const struct db_directory *directory, const char *name);
/* Which names it has is on the disk when this returns. */
KILN_MUST_CHECK enum kiln_code db_directory_sync(const struct db_directory *directory,
                                                 struct kiln_err *err);
