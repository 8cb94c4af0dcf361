/* SPDX-License-Identifier: MIT */
#pragma once

/* Files and directories of a test. Returned paths and contents are valid until the end of the test
 * (test_at_end). Therefore call these functions only in the main thread, and not in a loop without
 * a bound. */
#include "common/base/bytes.h"
#include "tests/support/test.h"

/* Returns "DIRECTORY/NAME". */
const char *test_path(const char *directory, const char *name);
/* Makes the directory, which other users may read, and returns its path. */
const char *test_subdirectory(const char *directory, const char *name);
/* Creates or replaces the file. All users can read a new file. */
void test_write(const char *path, struct bytes content);
void test_write_text(const char *path, const char *text);
/* The content is followed by a NUL. */
struct bytes test_read(const char *path);
char *test_read_text(const char *path);
