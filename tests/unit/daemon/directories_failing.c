/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "daemon/config/config.h"
#include "daemon/config/directories.h"
#include "daemon/workers/take_file.h"
#include "daemon/workers/temp_directory.h"
#include "tests/support/entries.h"
#include "tests/support/failing_calls.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fixture {
    const char *directory;
    char path[96];
    struct worker_user user;
    struct kiln_err err;
};

SET_UP(set_up)
{
    *f = (struct fixture){ .directory = test_directory(), .err = KILN_ERR_INIT };
    assert_int_equal(chmod(f->directory, 0711), 0);
    snprintf(f->path, sizeof(f->path), "%s/thing", f->directory);
}

FIXTURE(directory, set_up, NULL);

static enum kiln_code make_and_remove(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    char path[128];
    snprintf(path, sizeof(path), "%s/below", f->path);
    enum kiln_code rc = directory_make(path, 0711, "the state directory", "--state-dir", err);
    remove(path);
    remove(f->path);
    return rc;
}

TEST(directory, a_directory_that_cannot_be_made_is_reported_with_its_setting)
{
    struct fixture *f = *state;
    expect_failures(make_and_remove, f, FAILING("strdup", ENOMEM), KILN_NO_MEMORY,
                    "state directory");
    expect_failures(make_and_remove, f, FAILING("chmod", EPERM), KILN_DENIED, "mode");
    expect_failures(make_and_remove, f, FAILING("faccessat", EACCES), KILN_DENIED, "write");
    expect_failure(make_and_remove, f, FAILING("mkdir", EROFS), KILN_IO, "directory '");
    expect_failure(make_and_remove, f, FAILING("mkdir", EROFS), KILN_IO, "--state-dir");
    /* The first stat(2) checks that the path is a directory. The second reads its mode. */
    expect_failure(make_and_remove, f, FAILING("stat", EIO), KILN_IO, "attributes");
    expect_failure(make_and_remove, f, FAILING_NTH("stat", 2, EIO), KILN_IO, "attributes");
}

static enum kiln_code open_temporary(void *context, struct kiln_err *err)
{
    struct fixture *f = context;
    struct temp_root root = { .fd = -1 };
    char path[PATH_TEXT_MAX];
    enum kiln_code rc = temp_root_open(f->path, &f->user, &root, err);
    if (!rc)
        rc = temp_directory_make(&root, path, err);
    temp_root_close(&root);
    assert_true(access(f->path, F_OK) != 0 || entry_count(f->path, "") == 0);
    return rc;
}

TEST_F(directory, temporary_directories_that_cannot_be_made_are_reported_and_not_left)
{
    must(open_temporary(f, &f->err), f->err);
    expect_failures(open_temporary, f, FAILING("mkdtemp", ENOSPC), KILN_FULL,
                    "temporary directory");
    expect_failures(open_temporary, f, FAILING("mkdtemp", ENOSPC), KILN_FULL, "is full");
    expect_failures(open_temporary, f, FAILING("mkdir", ENOSPC), KILN_FULL, "directory '");
    /* If one of these calls fails only once, kilnd tries again and succeeds. */
    static const char *const calls[] = { "openat", "fstat", "flock", "lstat" };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        expect_failure(open_temporary, f, FAILING(calls[i], EIO), KILN_OK, "");
        expect_failure(open_temporary, f, FAILING_ALWAYS(calls[i], EIO), KILN_IO, "mark");
        fs_remove_tree(AT_FDCWD, f->path);
    }
    /* the second openat creates the file that marks the directory as kilnd's */
    expect_failure(open_temporary, f, FAILING_NTH("openat", 2, ENOSPC), KILN_OK, "");
    expect_failure(open_temporary, f, FAILING_ALWAYS("flock", EWOULDBLOCK), KILN_BUSY, "");
    fs_remove_tree(AT_FDCWD, f->path);
}

static void make_leftover(const struct fixture *f)
{
    static const char *const names[] = { "a", "b", "c", ".made-by-kilnd" };
    char path[192];
    assert_true(mkdir(f->path, 0700) == 0 || errno == EEXIST);
    snprintf(path, sizeof(path), "%s/kilnd-temp-dead00", f->path);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/kilnd-temp-dead00/%s", f->path, names[i]);
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
}

/* Opening the root of temporary directories removes those that a killed kilnd left. */
static void sweep_leftovers(struct fixture *f)
{
    struct temp_root root = { .fd = -1 };
    must(temp_root_open(f->path, &f->user, &root, &f->err), f->err);
    temp_root_close(&root);
}

/* If a sweep fails, the file that marks the directory as kilnd's must remain, so that the next
 * sweep recognizes the directory. */
TEST_F(directory, a_leftover_that_a_sweep_cannot_remove_is_removed_by_the_next)
{
    /* what a sweep removes: three files, the file that marks the directory, and the directory
     * itself */
    enum { REMOVED = 5 };
    unsigned nth = 0;
    bool failed = true;
    while (failed) {
        make_leftover(f);
        fail_call("unlinkat", ++nth, EIO);
        sweep_leftovers(f);
        failed = calls_failed();
        sweep_leftovers(f);
        assert_int_equal(entry_count(f->path, ""), 0);
    }
    assert_true(nth > REMOVED);
    static const char *const listing[] = { "openat", "fdopendir" };
    for (size_t i = 0; i < sizeof(listing) / sizeof(listing[0]); i++) {
        make_leftover(f);
        /* The sweep's first openat opens the directory to lock it, so the test lets the second one
         * fail. */
        fail_call(listing[i], i == 0 ? 2 : 1, EMFILE);
        sweep_leftovers(f);
        assert_true(calls_failed());
        assert_int_equal(entry_count(f->path, ""), 1);
        sweep_leftovers(f);
        assert_int_equal(entry_count(f->path, ""), 0);
    }
}

/* A full disk may still accept a new directory, but not the file that marks the directory as
 * kilnd's. */
TEST_F(directory, a_full_disk_is_reported)
{
    expect_failure(open_temporary, f, FAILING_ALWAYS("openat", ENOSPC), KILN_FULL, "inodes");
    fs_remove_tree(AT_FDCWD, f->path);
    expect_failure(open_temporary, f, FAILING_ALWAYS("openat", ENOSPC), KILN_FULL, f->path);
    fs_remove_tree(AT_FDCWD, f->path);
    expect_failure(open_temporary, f, FAILING_ALWAYS("mkdir", ENOSPC), KILN_FULL, "is full");
}

TEST_F(directory, temporary_directories_of_another_user_are_chowned_to_that_user)
{
    NEED_ROOT();
    f->user = (struct worker_user){ .uid = 45011, .gid = 45011, .other = true, .name = "worker" };
    must(open_temporary(f, &f->err), f->err);
    expect_failures(open_temporary, f, FAILING("chown", EPERM), KILN_DENIED, "'worker'");
    expect_failure(open_temporary, f, FAILING("fchmod", EPERM), KILN_DENIED, "mode");
    assert_int_equal(chmod(f->directory, 0700), 0);
    assert_int_equal(open_temporary(f, &f->err), KILN_DENIED);
    assert_says(f->err.text, "'worker'");
}

TEST_F(directory, a_temporary_directory_with_too_long_a_path_is_refused)
{
    struct temp_root root = { .fd = -1, .path = "" };
    char path[PATH_TEXT_MAX];
    memset(root.path, 'x', sizeof(root.path) - 2);
    assert_int_equal(temp_directory_make(&root, path, &f->err), KILN_INVALID);
    assert_says(f->err.text, "temp_dir 'xxx");
    temp_root_close(&root);
}

#define SIZE 5000

static enum kiln_code take_thing(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    char copy[PATH_TEXT_MAX];
    static atomic_int stopped;
    static struct file_take take;
    bool more = true;
    enum kiln_code rc = KILN_OK;
    snprintf(copy, sizeof(copy), "%s.copy", f->path);
    take = (struct file_take){
        .from = f->path, .to = copy, .size_max = SIZE, .stopped = &stopped, .is_synced = true
    };
    while (!rc && more)
        rc = take_copy(&take, &more, err);
    assert_int_equal(unlink(copy) == 0, rc == KILN_OK);
    return rc;
}

TEST_F(directory, a_file_that_cannot_be_taken_is_reported_and_no_copy_is_left)
{
    char content[SIZE] = "content";
    must(fs_replace_file(f->path, bytes_of(content, SIZE), 0600, &f->err), f->err);
    must(take_thing(f, &f->err), f->err);
    const struct {
        struct failing_call call;
        enum kiln_code code;
        const char *says;
    } cases[] = {
        { FAILING("open", EACCES), KILN_IO, "did not write" },
        { FAILING("fstat", EIO), KILN_IO, "did not write" },
        { FAILING_NTH("open", 2, ENOSPC), KILN_FULL, "make" },
        { FAILING("fsync", EIO), KILN_IO, "write" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_failure(take_thing, f, cases[i].call, cases[i].code, cases[i].says);
        must(take_thing(f, &f->err), f->err);
    }
}

TEST_F(directory, a_result_that_is_no_regular_file_or_too_large_is_not_taken)
{
    char content[SIZE + 1] = "content";
    must(fs_replace_file(f->path, bytes_of(content, SIZE + 1), 0600, &f->err), f->err);
    assert_int_equal(take_thing(f, &f->err), KILN_FULL);
    assert_says(f->err.text, "5001 bytes");
    assert_int_equal(remove(f->path), 0);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_int_equal(take_thing(f, &f->err), KILN_IO);
    assert_says(f->err.text, "did not write");
}

static struct config config;

static enum kiln_code load_config(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    const char *const arguments[] = {
        "kilnd", "--compiler=/bin/true", "--cache-dir=relative", "--config", f->path, NULL
    };
    const char *const environment[] = { NULL };
    return config_load(5, arguments, environment, &config, err);
}

TEST_F(directory, a_configuration_that_cannot_be_read_is_reported)
{
    must(fs_replace_file(f->path, bytes_of_text("{\"workers\": 3}"), 0600, &f->err), f->err);
    must(load_config(f, &f->err), f->err);
    expect_failures(load_config, f, FAILING("calloc", ENOMEM), KILN_NO_MEMORY, "configuration");
    expect_failures(load_config, f, FAILING("getcwd", EACCES), KILN_DENIED, "working directory");
    expect_failures(load_config, f, FAILING("open", EACCES), KILN_DENIED, "open '");
    expect_failures(load_config, f, FAILING("pread", EIO), KILN_IO, "cannot read");
    expect_failures(load_config, f, FAILING("realloc", ENOMEM), KILN_NO_MEMORY, "14 bytes");
}

TEST_F(directory, a_host_that_reports_nothing_gets_defaults)
{
    must(fs_replace_file(f->path, bytes_of_text("{}"), 0600, &f->err), f->err);
    expect_failure(load_config, f, FAILING_ALWAYS("sched_getaffinity", EPERM), KILN_OK, "");
    assert_int_equal(config_number(&config, CONFIG_workers), 1);
    expect_failure(load_config, f, FAILING_ALWAYS("statvfs", EIO), KILN_OK, "");
    assert_int_equal(config_number(&config, CONFIG_cache_limit), 20ull << 30);
    expect_failure(load_config, f, FAILING_ALWAYS("stat", EIO), KILN_OK, "");
    assert_int_equal(config_number(&config, CONFIG_cache_limit), 20ull << 30);
    assert_string_equal(config_text(&config, CONFIG_temp_dir), "/tmp");
    expect_failure(load_config, f, FAILING_ALWAYS("faccessat", EACCES), KILN_OK, "");
    assert_string_equal(config_text(&config, CONFIG_temp_dir), "/tmp");
}

/* Loads the settings as an ordinary user, whose environment has no variable except |variable|. */
static enum kiln_code load_as_user(const char *variable, const char *const *flags,
                                   struct kiln_err *err)
{
    static const char *const names[] = { "HOME",           "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
                                         "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR" };
    const char *const environment[] = { NULL };
    int count = 0;
    while (flags[count])
        count++;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    if (variable)
        putenv((char *)(uintptr_t)variable);
    uid_t before = geteuid();
    assert_true(before != 0 || seteuid(45012) == 0);
    enum kiln_code rc = config_load(count, flags, environment, &config, err);
    assert_int_equal(seteuid(before), 0);
    return rc;
}

TEST(directory, a_directory_that_has_no_default_must_be_set)
{
    static char longer[PATH_TEXT_MAX + 50] = "XDG_RUNTIME_DIR=/", relative[PATH_TEXT_MAX + 50];
    struct fixture *f = *state;
    memset(longer + strlen(longer), 'x', PATH_TEXT_MAX);
    memset(relative, 'x', PATH_TEXT_MAX - 5);
    const struct {
        const char *variable, *says;
        const char *flags[6];
    } cases[] = {
        { longer, "is longer than", { "kilnd" } },
        { NULL, "XDG_CACHE_HOME", { "kilnd" } },
        { NULL, "state directory", { "kilnd", "--cache-dir=/x" } },
        { NULL, "'kiln-compiler'", { "kilnd", "--cache-dir=/x", "--state-dir=/y" } },
        { "HOME=/h",
          "cache_dir: 'xxx",
          { "kilnd", "--compiler=/bin/true", "--cache-dir", relative } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_err_init(&f->err);
        assert_int_not_equal(load_as_user(cases[i].variable, cases[i].flags, &f->err), KILN_OK);
        assert_says(f->err.text, cases[i].says);
    }
    static const char *const sockets[][2] = { { "--socket=here.sock", "" },
                                              { "--socket=/here.sock", "" },
                                              { "--socket=/nonexistent/here.sock", "/tmp" } };
    for (size_t i = 0; i < 3; i++) {
        const char *const flags[] = { "kilnd", "--compiler=/bin/true", sockets[i][0], NULL };
        must(load_as_user("HOME=/h", flags, &f->err), f->err);
        assert_string_equal(config_text(&config, CONFIG_cache_dir), "/h/.cache/kiln");
        assert_int_equal(config_text(&config, CONFIG_temp_dir)[0], '/');
        if (*sockets[i][1])
            assert_string_equal(config_text(&config, CONFIG_temp_dir), sockets[i][1]);
    }
    unsetenv("HOME");
}
