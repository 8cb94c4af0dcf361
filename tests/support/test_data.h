/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Genuine files of MIOpen and of real hosts, which are too large for the source tree. Their
 * directory is the value of the variable KILN_TEST_DATA, or that of CMake's cache. Each call skips
 * the test if the file is missing. */

/* False: it is missing; the test goes on. */
bool test_data_find(const char *name, char ret_path[512]);
/* The path of file or directory |name|. */
void test_data_path(const char *name, char ret_path[512]);
/* Copies |name|, or unpacks |name|.bz2, to |path|. */
void test_data_copy(const char *name, const char *path);
