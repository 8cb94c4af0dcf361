/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One consistent file of a database that its owner's programs may have open, for kilnd to read.
 *
 * Role       run with the user's own rights (kiln-transfer --snapshot), as kilnd may not open what
 *            only the user may
 * Ownership  the descriptor is the caller's
 * Threading  blocks
 */
#include "engine/transfer/transfer_job.h"

#define SNAPSHOT_COPY "copy" /* the one file that it makes, and removes, in the directory */

struct snapshot {
    int fd;
    char name[256]; /* of the file, without its directory */
    bool merged;    /* a copy with the write-ahead log merged in; else the file itself */
    char note[512]; /* what cannot be had of it; "" as a rule */
};

/* A SQLite file in WAL mode, or with a log or journal beside it, is copied into |directory| (and
 * stays there nameless); a damaged one, which cannot be, comes as it is, with a note, as any other
 * file does.
 */
KILN_MUST_CHECK enum kiln_code snapshot_take(const char *path, const char *directory,
                                             struct snapshot *ret_snapshot, struct kiln_err *err);
