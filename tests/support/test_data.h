/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Genuine files of MIOpen and of real hosts, which are too large for the source tree.
 * KILN_TEST_DATA, an environment variable or a variable of CMake, names their directory. */

/* Stores the path of file |name|. Returns false if the file is missing. */
bool test_data_find(const char *name, char ret_path[512]);
/* Stores the path of |name|. Skips the test if this file or directory is missing. */
void test_data_path(const char *name, char ret_path[512]);
/* Copies |name|, or the unpacked |name|.bz2, to |path|. Skips the test if both are missing. */
void test_data_copy(const char *name, const char *path);
