/* SPDX-License-Identifier: MIT */
#pragma once

/* Opens a consistent copy of a SQLite database that MIOpen may have open.
 *
 * Role       runs kiln-transfer --snapshot with the user's permissions.  kiln-transfer copies the
 *            database and merges the write-ahead log.  The caller then sends the copy's
 *            descriptor to kilnd
 * Ownership  the caller owns the descriptor
 * Threading  main thread; blocks */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshot {
    int fd;
    bool merged;
    char note[512]; /* which tuning data could not be read; usually "" */
};

enum snapshot_of {
    SNAPSHOT_CACHE,  /* kernels; a damaged database is rejected */
    SNAPSHOT_TUNING, /* tuning data; as much as possible is read from a damaged database */
};

/* Opens a copy that kiln-transfer makes. If kiln-transfer is not installed, opens the database
 * itself, but returns KILN_E_UNSUPPORTED if the database has a log, which only kiln-transfer can
 * merge. Returns KILN_E_TIMED_OUT if the copy is not complete at |deadline_ns|
 * (session_deadline_ns). */
CLI_MUST_CHECK int snapshot_open(const char *path, enum snapshot_of what, uint64_t deadline_ns,
                                 struct snapshot *ret_snapshot, struct kiln_error *err);
CLI_MUST_CHECK int snapshot_open_plain(const char *path, int *ret_fd, struct kiln_error *err);
/* Returns whether |path| has a write-ahead log or a journal, without which the file is
 * incomplete. */
bool snapshot_has_log(const char *path);
