/* SPDX-License-Identifier: MIT */
#pragma once

/* Checks of the databases that must hold after any fault. The checks only use SQLite, so that
 * errors in the tested code cannot hide. */

/* Checks |directory|/kernels.db if it exists. The file may be empty. */
void expect_sound_kernels(const char *directory);
/* Checks |directory|/tuning.db if it exists. Each index that it lists must have its own file. */
void expect_sound_tuning(const char *directory);
/* Like expect_sound_tuning, for use after kilnd has started without faults. Also requires that
 * tuning.db lists every index file, and that there are no files of unfinished work. */
void expect_tidy_tuning(const char *directory);
void expect_no_file(const char *directory, const char *part);
