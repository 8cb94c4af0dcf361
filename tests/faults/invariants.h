/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks of the stores that must succeed after any fault. They use only SQLite, not the code under
 * test.
 */

/* Checks |directory|/kernels.db if it exists. SQLite's integrity and foreign-key checks must pass.
 * The schema must be complete, or the file empty. The counters of each user and of all users must
 * agree with the rows. Each kernel must have an object and a place in the order of eviction; each
 * of these must have a kernel. Nothing may be quarantined. */
void expect_sound_kernels(const char *directory);
/* Like expect_sound_kernels, for |directory|/tuning.db. Its numbers of rows must be right, and each
 * index that it lists must be a file of its own. */
void expect_sound_tuning(const char *directory);
/* Like expect_sound_tuning, but after a start without faults. In addition, each index file must be
 * listed, and unfinished work must have left no files. */
void expect_tidy_tuning(const char *directory);
/* Checks that no file in |directory| has |part| in its name. */
void expect_no_file(const char *directory, const char *part);
