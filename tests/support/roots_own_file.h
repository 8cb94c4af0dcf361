/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/base/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Makes a file with |content| that only the test's user may read, and adds its directory to
 * PATH, so that a compiler may look for it there. The end of the test removes the file and
 * restores PATH. */
static inline void roots_own_file(const char *content, char ret_file[128])
{
    char path[4096];
    struct kiln_err err = KILN_ERR_INIT;
    const char *directory = test_directory();
    assert_int_equal(chmod(directory, 0755), 0);
    snprintf(ret_file, 128, "%s/roots-own.h", directory);
    KILN_AUTO(fd) int fd = open(ret_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    must(fs_write_all(fd, bytes_of_text(content), &err), err);
    snprintf(path, sizeof(path), "%s:%s", getenv("PATH"), directory);
    test_setenv("PATH", path);
}
