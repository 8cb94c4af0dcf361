/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The folder of a database that belongs to one process at a time.
 *
 * Role       refuses a folder where the file is not safe (network filesystem, others may write) and
 *            one that another process uses; moves a damaged file out of the way
 * Ownership  the folder owns its descriptors; texts of the options are borrowed for its life
 * Threading  one thread at a time
 */
#include "common/cleanup.h"
#include "common/err.h"

#include <sys/stat.h>

struct db_folder_options {
    const char *path;
    const char *what;     /* for sentences: "state folder" */
    const char *setting;  /* what sets another one: "--state-dir" */
    const char *variable; /* likewise, for who is not root: "XDG_STATE_HOME" */
    const char *lock;     /* name of the lock file in it */
    const char *file;     /* for messages: "the database" */
    bool is_cache;        /* tagged so for backup programs (CACHEDIR.TAG) */
    bool allow_network_fs;
};

struct db_folder {
    struct db_folder_options options;
    int fd, lock; /* owned; -1: not open */
};

/* Made if absent, mode 0700; locked when this returns.  KILN_BUSY: another process has it;
 * KILN_DENIED: not ours alone; KILN_UNSUPPORTED: a network filesystem. */
KILN_MUST_CHECK enum kiln_code db_folder_open(const struct db_folder_options *options,
                                              struct db_folder *ret_folder, struct kiln_err *err);
void db_folder_close(struct db_folder *folder); /* accepts one that failed to open */
/* Of a zeroed folder with its options: not open. */
void db_folder_init(struct db_folder *folder, const struct db_folder_options *options);
/* Opens what is not open, or is no longer at its place: the directory, its lock.  Not |writing|:
 * makes and changes nothing; there may be no directory then, and no lock to take. */
KILN_MUST_CHECK enum kiln_code db_folder_refresh(struct db_folder *folder, bool writing,
                                                 struct kiln_err *err);

/* KILN_NOT_FOUND without a sentence where |name| is absent; KILN_INVALID where it is no file,
 * KILN_DENIED where it is not ours alone.  Opens nothing: closing a descriptor drops SQLite's
 * locks. */
KILN_MUST_CHECK enum kiln_code db_folder_look(const struct db_folder *folder, const char *name,
                                              struct stat *ret_seen, struct kiln_err *err);
/* |name| and what SQLite keeps beside it become |name|.damaged-<seconds>, or ...-<seconds>.<n>
 * where that is taken.  |name| goes first: a log without its file does no harm. */
KILN_MUST_CHECK enum kiln_code db_folder_move_aside(const struct db_folder *folder,
                                                    const char *name, char ret_aside[96],
                                                    struct kiln_err *err);
/* |name| and what SQLite keeps beside it; best effort. */
void db_folder_remove(const struct db_folder *folder, const char *name);
/* Which names it has is on the disk when this returns. */
KILN_MUST_CHECK enum kiln_code db_folder_sync(const struct db_folder *folder, struct kiln_err *err);
