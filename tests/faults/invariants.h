/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Invariants of the stores after any fault. They use only SQLite, not the code under test.
 */

/* Checks |directory|/kernels.db if it exists. SQLite's integrity and foreign-key checks pass. The
 * schema is complete, or the file is empty. The counters of all users and of each agree with the
 * rows. Each kernel has an object and a place in the order of eviction, and the reverse. Nothing is
 * quarantined. */
void expect_sound_kernels(const char *directory);
/* The same for |directory|/tuning.db. Its tally is right, and each index that it lists is a file,
 * no two the same. */
void expect_sound_tuning(const char *directory);
/* The same after a start without faults. Also, each index file is listed, and unfinished work has
 * left no files. */
void expect_tidy_tuning(const char *directory);
/* No file in |directory| has |part| in its name. */
void expect_no_file(const char *directory, const char *part);
