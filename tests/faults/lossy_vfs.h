/* SPDX-License-Identifier: MIT */
#pragma once

/* An SQLite VFS that simulates a disk that loses power. A write that was not synced may survive
 * completely, partly or not at all, and a later write may survive without an earlier one.
 *
 * The VFS logs every write, truncation, deletion and sync of this process. From the log it can
 * compute what the disk may hold if the power fails after any entry. Only one thread may use the
 * VFS. */
#include <stddef.h>

/* Makes SQLite use this VFS, which logs nothing before lossy_begin. */
void lossy_install(void);
/* Considers the present files of |directory| as synced, and logs all later changes. */
void lossy_begin(const char *directory);
/* Adds an entry to the log, which says that change |number| was acknowledged to the test. */
void lossy_acknowledge(unsigned number);
size_t lossy_moments(void);
/* Writes into directory |into| what the disk may hold if the power fails after the first |moment|
 * log entries. |seed| selects which unsynced writes survive. Returns the last number that was
 * acknowledged before, or 0. */
unsigned lossy_write(size_t moment, unsigned seed, const char *into);
