/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"

#include "tests/support/failing_calls.h"
#include "tests/unit/common/base/fs_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

TEAR_DOWN(end_failures)
{
    calls_failed();
    fs_remove_tree(AT_FDCWD, f->path);
    assert_int_equal(rmdir(f->directory), 0);
}

FIXTURE(fs_failing, make_directory, end_failures);

static enum kiln_code replace_file(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    return fs_replace_file(f->path, bytes_of_text("another"), 0600, err);
}

static void expect_content(const struct fixture *f, const char *expected)
{
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    must(fs_read_file(f->path, 100, &b, &err), err);
    assert_true(bytes_equal_text(buffer_view(&b), expected));
}

TEST_F(fs_failing, a_file_that_cannot_be_replaced_stays_as_it_was)
{
    must(fs_replace_file(f->path, bytes_of_text("before"), 0600, &f->err), f->err);
    static const struct {
        const char *call, *says;
        int error;
        enum kiln_code code;
    } cases[] = {
        { "mkostemp", "temporary", EACCES, KILN_DENIED },
        { "write", "cannot write 7 bytes: No space left", ENOSPC, KILN_FULL },
        { "fchmod", "cannot replace", EPERM, KILN_DENIED },
        { "fsync", "cannot replace", EIO, KILN_IO },
        { "rename", "cannot replace", EIO, KILN_IO },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fail_call(cases[i].call, 1, cases[i].error);
        assert_int_equal(replace_file(f, &f->err), cases[i].code);
        assert_true(calls_failed());
        assert_says(f->err.text, cases[i].says);
        assert_says(f->err.text, f->path);
        expect_content(f, "before");
    }
    char longer[PATH_MAX + 10];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_int_equal(fs_replace_file(longer, bytes_of_text(""), 0600, &f->err), KILN_INVALID);
    assert_says(f->err.text, "too long");
}

TEST_F(fs_failing, a_failed_sync_of_a_directory_is_reported)
{
    expect_failures(replace_file, f, FAILING("fsync", EIO), KILN_IO, f->path);
    expect_failures(replace_file, f, FAILING("open", EMFILE), KILN_IO, "sync");
    expect_failures(replace_file, f, FAILING("strdup", ENOMEM), KILN_NO_MEMORY, "sync");
    expect_no_harm(replace_file, f, "write", EINTR);
    expect_content(f, "another");
}

static enum kiln_code read_it(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 100);
    enum kiln_code rc = fs_read_file(f->path, 100, &b, err);
    if (!rc)
        assert_true(bytes_equal_text(buffer_view(&b), "content"));
    return rc;
}

TEST_F(fs_failing, a_file_that_cannot_be_read_is_named)
{
    char words[128];
    must(fs_replace_file(f->path, bytes_of_text("content"), 0600, &f->err), f->err);
    snprintf(words, sizeof(words), "open '%s'", f->path);
    expect_failures(read_it, f, FAILING("open", EMFILE), KILN_IO, words);
    expect_failures(read_it, f, FAILING("pread", EIO), KILN_IO, "/thing'");
    expect_failures(read_it, f, FAILING("realloc", ENOMEM), KILN_NO_MEMORY, "7 bytes");
    expect_no_harm(read_it, f, "pread", EINTR);
}

static enum kiln_code note_pid(void *context, struct kiln_err *err)
{
    (void)err;
    fs_write_pid(*(int *)context);
    return KILN_OK;
}

TEST_F(fs_failing, a_lock_file_without_a_pid_is_still_locked)
{
    char text[32] = "", expected[32];
    int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    expect_no_harm(note_pid, &fd, "ftruncate", EIO);
    expect_no_harm(note_pid, &fd, "pwrite", ENOSPC);
    snprintf(expected, sizeof(expected), "%d\n", (int)getpid());
    assert_int_equal(pread(fd, text, sizeof(text) - 1, 0), strlen(expected));
    assert_string_equal(text, expected);
    close(fd);
}

static enum kiln_code make_memory_file(void *context, struct kiln_err *err)
{
    int fd = -1;
    (void)context;
    enum kiln_code rc = fs_memfd("test", &fd, err);
    if (!rc)
        rc = fs_seal(fd, err);
    fd_auto(&fd);
    return rc;
}

TEST(fs_failing, a_memory_file_is_sealed_or_its_failure_is_reported)
{
    expect_failures(make_memory_file, NULL, FAILING("memfd_create", ENOMEM), KILN_NO_MEMORY,
                    "'test'");
    expect_failures(make_memory_file, NULL, FAILING("fcntl", EPERM), KILN_DENIED, "seal");
    assert_false(fs_is_sealed(-1));
}

static enum kiln_code make_three(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    char path[128];
    snprintf(path, sizeof(path), "%s/b/c", f->path);
    enum kiln_code rc = fs_make_directories(path, err);
    rmdir(path);
    path[strlen(path) - 2] = '\0';
    rmdir(path);
    return rc;
}

TEST_F(fs_failing, directories_that_cannot_be_made_are_named)
{
    expect_failures(make_three, f, FAILING("strdup", ENOMEM), KILN_NO_MEMORY, "/thing/b/c'");
    expect_failures(make_three, f, FAILING("mkdir", EACCES), KILN_DENIED, "directory '");
    expect_failures(make_three, f, FAILING("stat", EIO), KILN_IO, "/thing/b/c'");
}

static void fill_directory(const struct fixture *f)
{
    char path[128];
    mkdir(f->path, 0700);
    snprintf(path, sizeof(path), "%s/b", f->path);
    mkdir(path, 0700);
    strcat(path, "/file");
    KILN_AUTO(fd) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

static enum kiln_code fill_and_remove(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    fill_directory(f);
    return fs_remove(AT_FDCWD, f->path, err);
}

static enum kiln_code fill_and_empty(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    fill_directory(f);
    return fs_empty(f->path, err);
}

TEST_F(fs_failing, a_file_that_cannot_be_removed_from_a_directory_is_reported)
{
    expect_failures(fill_and_remove, f, FAILING("unlinkat", EIO), KILN_IO, "cannot remove");
    expect_failures(fill_and_remove, f, FAILING("openat", EMFILE), KILN_IO, "remove");
    expect_failures(fill_and_empty, f, FAILING("openat", EMFILE), KILN_IO, "directory");
    assert_int_equal(access(f->path, F_OK), 0);
}

TEST_F(fs_failing, a_directory_that_cannot_be_listed_does_not_count_as_empty)
{
    expect_failures(fill_and_empty, f, FAILING("fdopendir", ENOMEM), KILN_NO_MEMORY, "list");
    expect_failures(fill_and_empty, f, FAILING("readdir", EIO), KILN_IO, "cannot list");
    expect_failures(fill_and_remove, f, FAILING("fdopendir", ENOMEM), KILN_NO_MEMORY, "list");
    expect_failures(fill_and_remove, f, FAILING("readdir", EIO), KILN_IO, "cannot list");
}

/* Makes a tree that is deeper than the limit of open descriptors, and removes it. */
static enum kiln_code dig_and_remove(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    int at = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *name = "thing";
    for (unsigned i = 0; i < 40; i++, name = "d") {
        mkdirat(at, name, 0700);
        int below = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = below;
    }
    close(at);
    return fs_remove(AT_FDCWD, f->path, err);
}

TEST_F(fs_failing, a_directory_too_deep_to_remove_that_cannot_be_moved_is_reported)
{
    expect_failures(dig_and_remove, f, FAILING("renameat2", EIO), KILN_IO, "'d'");
}

TEST_F(fs_failing, a_directory_without_search_permission_is_opened_again_for_removal)
{
    assert_int_equal(mkdir(f->path, 0700), 0);
    fail_call("openat", 1, EACCES);
    must(fs_remove(AT_FDCWD, f->path, &f->err), f->err);
    assert_true(calls_failed());
    assert_int_equal(mkdir(f->path, 0700), 0);
    fail_calls("openat", EACCES);
    assert_int_equal(fs_remove(AT_FDCWD, f->path, &f->err), KILN_DENIED);
    assert_true(calls_failed());
    assert_says(f->err.text, "cannot remove");
}

static enum kiln_code ask_for_place(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    return fs_refuse_network(f->directory, "cache_dir", err);
}

TEST_F(fs_failing, a_failing_statfs_is_reported_with_its_path)
{
    expect_failures(ask_for_place, f, FAILING("statfs", EIO), KILN_IO, "filesystem");
    expect_failures(ask_for_place, f, FAILING("stat", EACCES), KILN_DENIED, "filesystem");
}
