/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A consistent copy of a SQLite database that another program may be writing to.
 *
 * Role       lets kiln read files of other programs for any length of time. Nothing is written to
 *            the files or their directory, and writers wait no longer than for an ordinary reader
 * Threading  any thread; blocks, at most some seconds for a lock
 *
 * SQLite itself cannot do this: reading a file in WAL mode creates or changes its -wal and -shm
 * files, and fails if these are not writable.
 */
#include "engine/db/log_salvage.h"

/* Copies the file to |to|, and its log or journal to |to|-wal or |to|-journal, with mode 0600.
 * |to| must not exist. On failure, no copy remains. Returns KILN_BUSY if the file is locked, or
 * written to continuously. Returns KILN_CORRUPT if it is not a regular file, or a transaction
 * over several files was interrupted. Set |salvage| if db_snapshot_save will be called. */
KILN_MUST_CHECK enum kiln_code db_snapshot(const char *from, const char *to, bool salvage,
                                           struct kiln_err *err);
/* Applies the copied log or journal to the copy, as SQLite does after a crash. Afterwards, the file
 * contains the whole database. Returns KILN_CORRUPT if SQLite does not accept the file; the copy
 * remains. */
KILN_MUST_CHECK enum kiln_code db_snapshot_merge(const char *path, struct kiln_err *err);
/* Like db_snapshot_merge, for tuning data that may be damaged. If SQLite's recovery would drop part
 * of the log, or if SQLite rejects the file, copies each readable page of the log into the file.
 * |ret_log| reports what was lost. Returns KILN_CORRUPT if SQLite rejects the file and there is no
 * log. */
KILN_MUST_CHECK enum kiln_code db_snapshot_save(const char *path, struct log_state *ret_log,
                                                struct kiln_err *err);
/* Removes the copy and its companion files. Ignores failures. */
void db_snapshot_remove(const char *path);
