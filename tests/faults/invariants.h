/* SPDX-License-Identifier: MIT */
#pragma once

/* Checks of the stores that must succeed after any fault. The checks use only SQLite, not the code
 * under test. */

/* Checks |directory|/kernels.db if it exists. The file may be empty. */
void expect_sound_kernels(const char *directory);
/* Checks |directory|/tuning.db. Each index that it lists must be a file of its own. */
void expect_sound_tuning(const char *directory);
/* Like expect_sound_tuning, after a start without faults. Each index file must be listed, and
 * unfinished work must have left no files. */
void expect_tidy_tuning(const char *directory);
void expect_no_file(const char *directory, const char *part);
