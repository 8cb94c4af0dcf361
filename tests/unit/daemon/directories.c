/* SPDX-License-Identifier: MIT */
#include "daemon/config/directories.h"

#include "common/base/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    const char *directory;
    char path[128];
    struct kiln_err err;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_directory(), .err = KILN_ERR_INIT };
    snprintf(f->path, sizeof(f->path), "%s/some/state", f->directory);
}

FIXTURE(directory, set_up, NULL);

static enum kiln_code make_directory(struct fixture *f)
{
    return directory_make(f->path, 0700, "the state directory", "--state-dir", &f->err);
}

TEST_F(directory, a_made_directory_may_only_be_entered_by_its_owner)
{
    struct stat seen;

    must(make_directory(f), f->err);

    assert_int_equal(stat(f->path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    must(make_directory(f), f->err);
}

TEST(directory, a_directory_that_cannot_be_made_is_named_with_its_setting)
{
    struct fixture *f = *state;
    snprintf(f->path, sizeof(f->path), "/dev/null/state");
    assert_int_not_equal(make_directory(f), KILN_OK);
    assert_says(f->err.text, "state directory");
    assert_says(f->err.text, "--state-dir");
}

TEST_F(directory, a_world_writable_directory_is_refused)
{
    must(make_directory(f), f->err);
    assert_int_equal(chmod(f->path, 0777), 0);
    assert_int_equal(make_directory(f), KILN_DENIED);
    assert_says(f->err.text, f->path);
    assert_int_equal(chmod(f->path, 01777), 0); /* like /tmp */
    must(make_directory(f), f->err);
}

TEST(directory, an_unwritable_directory_is_refused)
{
    struct fixture *f = *state;
    NEED_ROOT();
    must(make_directory(f), f->err);
    snprintf(f->path, sizeof(f->path), "%s", f->directory);
    assert_int_equal(chmod(f->directory, 0755), 0);
    assert_int_equal(seteuid(65534), 0);

    enum kiln_code rc = make_directory(f);

    assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, KILN_DENIED);
    assert_says(f->err.text, "write");
    assert_says(f->err.text, "--state-dir");
}
