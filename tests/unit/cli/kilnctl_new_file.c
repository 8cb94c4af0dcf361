/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/new_file.h"
#include "tests/support/entries.h"
#include "tests/support/test.h"
#include "tests/unit/cli/scratch_directory.h"

#include <errno.h>
#include <sys/mman.h>

static int sync_fails;

WRAP(int, fsync, int fd)
{
    if (!sync_fails)
        return __real_fsync(fd);
    errno = sync_fails;
    return -1;
}

struct fixture {
    const char *directory;
    char path[512], text[64];
    struct kiln_error err;
};

SET_UP(set_up)
{
    f->directory = test_directory();
    scratch_path(f->directory, "out", f->path);
    sync_fails = 0;
}

FIXTURE(kilnctl_new_file, set_up, NULL);

static int write_text(struct fixture *f, const char *text, bool replace)
{
    const struct new_file file = {
        .path = f->path, .replace = replace, .from = -1, .data = text, .size = strlen(text)
    };
    return new_file_write(&file, &f->err);
}

static const char *read_content(struct fixture *f)
{
    return scratch_read(f->directory, "out", f->text, sizeof(f->text));
}

TEST_F(kilnctl_new_file, a_new_file_has_the_mode_that_the_umask_allows)
{
    struct stat seen;
    mode_t mask = umask(0027);
    int rc = write_text(f, "all of it", false);
    umask(mask);
    must(rc, f->err);
    assert_string_equal(read_content(f), "all of it");
    assert_int_equal(stat(f->path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0640);
    assert_int_equal(entry_count(f->directory, ""), 1);
}

TEST_F(kilnctl_new_file, a_new_file_gets_the_whole_content_of_a_descriptor)
{
    int fd = memfd_create("content", MFD_CLOEXEC);
    const struct new_file file = { .path = f->path, .replace = true, .from = fd };
    assert_int_equal(write(fd, "descriptor", 10), 10);
    int rc = new_file_write(&file, &f->err);
    close(fd);
    must(rc, f->err);
    assert_string_equal(read_content(f), "descriptor");
}

TEST_F(kilnctl_new_file, an_existing_file_is_kept_unless_force_is_given)
{
    must(write_text(f, "old", false), f->err);
    assert_int_equal(write_text(f, "new", false), KILN_E_IO);
    assert_says(f->err.text, "already");
    assert_string_equal(read_content(f), "old");
    must(write_text(f, "new", true), f->err);
    assert_string_equal(read_content(f), "new");
    assert_int_equal(entry_count(f->directory, ""), 1);
}

TEST_F(kilnctl_new_file, a_failed_write_keeps_the_old_file_and_leaves_no_other)
{
    must(write_text(f, "old", false), f->err);
    sync_fails = ENOSPC;
    assert_int_equal(write_text(f, "new", true), KILN_E_FULL);
    sync_fails = EIO;
    assert_int_equal(write_text(f, "new", true), KILN_E_IO);
    assert_string_equal(read_content(f), "old");
    assert_int_equal(entry_count(f->directory, ""), 1);
}

TEST_F(kilnctl_new_file, a_target_that_is_no_regular_file_is_not_replaced)
{
    assert_int_equal(symlink("/dev/null", f->path), 0);
    assert_int_equal(write_text(f, "new", true), KILN_E_INVALID);
    assert_says(f->err.text, "regular file");
    struct stat seen;
    assert_int_equal(lstat(f->path, &seen), 0);
    assert_true(S_ISLNK(seen.st_mode));
}

TEST_F(kilnctl_new_file, a_missing_directory_is_reported_with_the_file)
{
    snprintf(f->path, sizeof(f->path), "%s/none/out", f->directory);
    assert_int_equal(write_text(f, "x", true), KILN_E_IO);
    assert_says(f->err.text, f->path);
    snprintf(f->path, sizeof(f->path), "%s/", f->directory);
    assert_int_equal(write_text(f, "x", true), KILN_E_INVALID);
}

TEST_F(kilnctl_new_file, a_file_of_the_working_directory_needs_no_path)
{
    char before[512];
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(f->directory), 0);
    snprintf(f->path, sizeof(f->path), "out");
    int rc = write_text(f, "here", false);
    assert_int_equal(chdir(before), 0);
    must(rc, f->err);
    assert_string_equal(read_content(f), "here");
    assert_string_equal(new_file_name("a/b/c"), "c");
    assert_string_equal(new_file_name("c"), "c");
}
