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
    bool merged;    /* a copy with the write-ahead log merged in; false: the file itself */
    char note[512]; /* what could not be copied; usually "" */
};

/* Copies a SQLite file that is in WAL mode, or has a log or journal, to a nameless file in
 * |directory|. A damaged database that cannot be copied, and any other file, is returned as it
 * is; for the damaged one |note| says so. */
KILN_MUST_CHECK enum kiln_code snapshot_take(const char *path, const char *directory,
                                             struct snapshot *ret_snapshot, struct kiln_err *err);
