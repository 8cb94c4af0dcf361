/* SPDX-License-Identifier: MIT */
#pragma once

/* An SQLite VFS that simulates a disk that loses power. Writes that were not synced may survive
 * completely, partly or not at all, in any order.
 *
 * The VFS logs every write, truncation, deletion and sync of this process. From the log it
 * computes what a disk may hold after a power failure at an entry of the log. One thread uses
 * it. */
#include <stddef.h>

/* Makes SQLite use this VFS. Does not log yet. */
void lossy_install(void);
/* Considers the files of |directory| as synced, and logs all later changes. */
void lossy_begin(const char *directory);
/* Logs that |number| was acknowledged. */
void lossy_acknowledge(unsigned number);
size_t lossy_moments(void);
/* Writes into directory |into| what the disk may hold after the first |moment| log entries.
 * |seed| selects the unsynced writes that survive. Returns the last acknowledged number. */
unsigned lossy_write(size_t moment, unsigned seed, const char *into);
