/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * SQLite in a child of fork.
 *
 * Role       fork waits until no thread is inside one of SQLite's own locks, so that a child can
 *            open files of its own; connections of its parent it may neither use nor close, and
 *            files that its parent has open it may not open
 * Threading  any thread; before the first connection
 */

/* From now on, and for good. */
void db_watch_forks(void);
