/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Genuine files of MIOpen and of real hosts, which are too large for the source tree. The
 * variable KILN_TEST_DATA, or CMake's cache, names their directory. */

/* Returns false if the file is missing. */
bool test_data_find(const char *name, char ret_path[512]);
/* Skips the test if the file or directory is missing. */
void test_data_path(const char *name, char ret_path[512]);
/* Copies |name|, or the unpacked |name|.bz2, to |path|. Skips the test if both are missing. */
void test_data_copy(const char *name, const char *path);
