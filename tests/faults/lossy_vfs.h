/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A disk that loses power, under SQLite: what was written and not synced is there, or is not, or
 * is in parts, in any order.
 *
 * Role       takes the place of SQLite's own files for all that this process opens; keeps a log of
 *            what was written, cut, deleted and synced; makes of it what a disk may hold when power
 *            went at a moment of the log
 * Ownership  the log is the process's
 * Threading  one thread
 */
#include <stddef.h>

/* From now on all of SQLite's files are these; nothing is logged yet. */
void lossy_install(void);
/* What lies in |directory| now is on the disk; from now on changes are logged. */
void lossy_begin(const char *directory);
/* Notes a moment: |number| was acknowledged. */
void lossy_acknowledge(unsigned number);
/* Moments so far. */
size_t lossy_moments(void);
/* The files as the disk may have them after the first |moment| moments, into the directory |into|;
 * another |seed| makes another choice.  Returns the number acknowledged last until then. */
unsigned lossy_write(size_t moment, unsigned seed, const char *into);
