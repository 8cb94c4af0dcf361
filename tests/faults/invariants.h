/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What must hold of the stores whatever happened, as SQLite itself sees them: the oracle is not the
 * code under test.
 */

/* |directory|/kernels.db, where it is there: SQLite finds no fault in it, no row points to one that
 * is not; it has the whole schema, or nothing; its counters, of all and of each user, are what its
 * rows add up to; each kernel has its object and its place in the order of eviction, and each of
 * these a kernel; nothing was taken for damaged. */
void expect_sound_kernels(const char *directory);
/* |directory|/tuning.db, where it is there: likewise; its tally is right, and each index that it
 * lists is a file, no two the same. */
void expect_sound_tuning(const char *directory);
/* The same after a start without faults; besides, each index file is listed, and nothing is left of
 * what did not come to its end. */
void expect_tidy_tuning(const char *directory);
/* Nothing in |directory| has a name with |part| in it. */
void expect_no_file(const char *directory, const char *part);
