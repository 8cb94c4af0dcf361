/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens a consistent copy of a SQLite database that MIOpen may have open.
 *
 * Role       runs kiln-transfer --snapshot, which merges the write-ahead log, with the user's
 *            permissions; the caller then sends the descriptor to kilnd
 * Ownership  the caller owns the descriptor
 * Threading  main thread; blocks
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshot {
    int fd;
    bool merged;
    char note[512]; /* says which tuning data could not be read; usually "" */
};

enum snapshot_of {
    SNAPSHOT_CACHE,  /* a damaged cache is rejected */
    SNAPSHOT_TUNING, /* tuning data: as much as possible is read */
};

/* If kiln-transfer is not installed, opens the file itself, or returns KILN_E_UNSUPPORTED if there
 * is a log next to it.  Returns KILN_E_TIMED_OUT if the snapshot is not complete at |deadline_ns|
 * (session_deadline_ns). */
CLI_MUST_CHECK int snapshot_open(const char *path, enum snapshot_of what, uint64_t deadline_ns,
                                 struct snapshot *ret_snapshot, struct kiln_error *err);
CLI_MUST_CHECK int snapshot_open_plain(const char *path, int *ret_fd, struct kiln_error *err);
/* Returns whether there is a write-ahead log or a journal next to |path|.  The file alone is then
 * incomplete. */
bool snapshot_has_log(const char *path);
