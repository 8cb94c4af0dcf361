/* SPDX-License-Identifier: MIT */
#pragma once

/* Files and directories of a test. The end of the test frees returned paths and contents, using
 * test_at_end. So call these functions only in the main thread, and not in an unbounded loop. */
#include "common/base/bytes.h"
#include "tests/support/test.h"

const char *test_path(const char *directory, const char *name);
/* Makes a directory that other users may read, and returns its path. */
const char *test_subdirectory(const char *directory, const char *name);
/* Creates or replaces the file. Other users may read a new file. */
void test_write(const char *path, struct bytes content);
void test_write_text(const char *path, const char *text);
/* The content is followed by a NUL, which its size does not include. */
struct bytes test_read(const char *path);
char *test_read_text(const char *path);
