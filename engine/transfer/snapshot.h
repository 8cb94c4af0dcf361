/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes a consistent copy of a user's database, which programs may have open, for kilnd to read.
 *
 * Role       runs with the user's own rights (kiln-transfer --snapshot), because kilnd must not
 *            open files that only the user may open
 * Ownership  the caller owns the descriptor
 * Threading  blocks
 */
#include "engine/transfer/transfer_job.h"

/* The file that snapshot_take creates and removes in the directory. */
#define SNAPSHOT_COPY "copy"

struct snapshot {
    int fd;
    char name[256]; /* of the file, without its directory */
    bool salvage;   /* tuning data: damaged parts are left out, and |note| says so */
    bool merged;    /* a copy with the write-ahead log merged in; false: the file itself */
    char note[512]; /* what could not be copied; usually "" */
};

/* Copies a SQLite file that is in WAL mode, or has a log or journal, to a nameless file in
 * |directory|. Any other file is returned as it is. Of a cache, SQLite's recovery decides what the
 * copy contains; KILN_CORRUPT if SQLite rejects the file. With |salvage|, the copy also contains
 * what SQLite would drop of a damaged log, and a file that SQLite rejects is returned as it is. */
KILN_MUST_CHECK enum kiln_code snapshot_take(const char *path, const char *directory, bool salvage,
                                             struct snapshot *ret_snapshot, struct kiln_err *err);
