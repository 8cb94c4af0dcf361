/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What must hold of the stores whatever happened, as SQLite itself sees them: the oracle is not the
 * code under test.
 */

/* |folder|/kernels.db, where it is there: SQLite finds no fault in it; its counters are what its
 * rows add up to; each kernel has its object and each object a kernel; nothing was
 * taken for damaged. */
void expect_sound_kernels(const char *folder);
/* |folder|/tuning.db, where it is there: SQLite finds no fault in it, its tally is right, and each
 * index that it lists is a file. */
void expect_sound_tuning(const char *folder);
/* Nothing in |folder| has a name with |part| in it. */
void expect_no_file(const char *folder, const char *part);
