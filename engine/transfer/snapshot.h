/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Creates a consistent copy of a user's database, which kilnd can read.  Programs may have the
 * database open.
 *
 * Role       runs with the user's own rights (kiln-transfer --snapshot), because kilnd must not
 *            open files that only the user may open
 * Ownership  the caller owns the descriptor
 * Threading  blocks
 */
#include "engine/transfer/transfer_job.h"

#define SNAPSHOT_COPY "copy"

struct snapshot {
    int fd;
    char name[256];
    bool salvage; /* for tuning data: leaves out damaged parts, and reports that in |note| */
    /* True: |fd| is a copy with the write-ahead log merged in; false: the file itself. */
    bool merged;
    char note[512]; /* what could not be copied; usually "" */
};

/* If the SQLite file at |path| is in WAL mode, or has a log or journal, copies it to a nameless
 * file in |directory|. Opens any other file without a copy. If |salvage| is false (for a cache),
 * the copy contains what SQLite's recovery finds; if SQLite rejects the file, returns KILN_CORRUPT.
 * If |salvage| is true, the copy also contains the parts of a damaged log that SQLite would drop;
 * if SQLite rejects the file, opens it without a copy. */
KILN_MUST_CHECK enum kiln_code snapshot_take(const char *path, const char *directory, bool salvage,
                                             struct snapshot *ret_snapshot, struct kiln_err *err);
