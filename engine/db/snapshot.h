/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A consistent copy of a SQLite database that another program may be writing to.
 *
 * Role       lets files of others be read at leisure: nothing is written to them, to their
 *            write-ahead logs or their directory, and their writers are held up for no longer than
 * a reader would Threading  any thread; blocks, at most some seconds for a lock
 *
 * SQLite itself cannot do that: reading a file in WAL mode makes or changes its -wal and -shm, and
 * fails where these are not writable.
 */
#include "engine/db/log_salvage.h"

/* The file, and its log or journal where there is one, as |to| and |to|-wal or -journal, mode
 * 0600; |to| must not exist.  On failure nothing is left.  KILN_BUSY: locked, or written to all
 * the time; KILN_CORRUPT: no regular file, or a transaction over several files ended in the middle.
 */
KILN_MUST_CHECK enum kiln_code db_snapshot(const char *from, const char *to, struct kiln_err *err);
/* Recovers the copy as SQLite does after a crash and puts its log into the file, which then stands
 * alone and is in rollback mode: readable with no other file beside it.  KILN_CORRUPT: SQLite does
 * not take it for a database; the copy stays. */
KILN_MUST_CHECK enum kiln_code db_snapshot_merge(const char *path, struct kiln_err *err);
/* The same for what may be damaged: of a log that recovery would not take whole, or a file that
 * SQLite does not take, each page of the log that can be read is put into the file, and |ret_log|
 * tells what was lost.  KILN_CORRUPT: SQLite does not take the file, and it has no log. */
KILN_MUST_CHECK enum kiln_code db_snapshot_save(const char *path, struct log_state *ret_log,
                                                struct kiln_err *err);
/* The copy and what belongs to it; best effort. */
void db_snapshot_remove(const char *path);
