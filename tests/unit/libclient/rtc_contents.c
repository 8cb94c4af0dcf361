/* SPDX-License-Identifier: MIT */
#include "libclient/rtc/contents.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct file_state state_of(const char *path)
{
    struct stat seen;
    assert_int_equal(stat(path, &seen), 0);
    return file_state_of(&seen);
}

static void make_file(char *path)
{
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, path, strlen(path)), strlen(path));
    close(file);
}

TEST(plain, a_file_that_was_replaced_before_it_was_read_has_no_known_content)
{
    char path[] = "/tmp/kiln-contents-XXXXXX", other[] = "/tmp/kiln-contents-XXXXXX";
    struct contents contents;
    make_file(path);
    make_file(other);
    const struct file_state before = state_of(path);
    assert_int_equal(rename(other, path), 0);
    assert_false(contents_of(path, &before, &contents));
    const struct file_state now = state_of(path);
    assert_true(contents_of(path, &now, &contents));
    unlink(path);
}
