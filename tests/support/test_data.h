/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Genuine files of MIOpen and of real hosts, which are too large for the source tree. Their
 * directory is the value of the variable KILN_TEST_DATA, or that of CMake's cache. Each call skips
 * the test if the file is missing. */

/* Returns false if the file is missing; the test then continues. */
bool test_data_find(const char *name, char ret_path[512]);
/* Gets the path of the file or directory |name|. */
void test_data_path(const char *name, char ret_path[512]);
/* Copies |name|, or the unpacked |name|.bz2, to |path|. */
void test_data_copy(const char *name, const char *path);
