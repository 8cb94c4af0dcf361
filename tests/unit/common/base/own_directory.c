/* SPDX-License-Identifier: MIT */
#include "common/base/own_directory.h"

#include "common/base/fs.h"
#include "common/protocol/private_directories.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STRANGER 4242u

struct fixture {
    const char *directory;
    char path[128]; /* below |directory|; does not exist */
    struct kiln_err err;
    struct private_directories directories;
};

static bool seems_root;

WRAP(uid_t, geteuid, void) { return seems_root ? 0 : __real_geteuid(); }

SET_UP(set_up)
{
    seems_root = false;
    f->directory = test_directory();
    snprintf(f->path, sizeof(f->path), "%s/a/b", f->directory);
    setenv("HOME", f->directory, 1);
    test_unsetenv("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TMPDIR");
}

FIXTURE(own_directory, set_up, NULL);

static void be_root_in_anothers_directory(struct fixture *f)
{
    if (__real_geteuid() == 0)
        assert_int_equal(chown(f->directory, STRANGER, STRANGER), 0);
    seems_root = true;
}

static void expect_nothing_made(const struct fixture *f)
{
    char below[256];
    snprintf(below, sizeof(below), "%s/a", f->directory);
    assert_int_not_equal(access(below, F_OK), 0);
    snprintf(below, sizeof(below), "%s/.cache", f->directory);
    assert_int_not_equal(access(below, F_OK), 0);
    snprintf(below, sizeof(below), "%s/.local", f->directory);
    assert_int_not_equal(access(below, F_OK), 0);
}

TEST_F(own_directory, a_directory_within_the_users_own_is_made_private)
{
    struct stat seen;
    must(own_directory_make(f->path, &f->err), f->err);
    assert_int_equal(stat(f->path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    must(own_directory_make(f->path, &f->err), f->err);
}

TEST_F(own_directory, root_makes_nothing_in_another_users_directory)
{
    be_root_in_anothers_directory(f);
    assert_int_equal(own_directory_make(f->path, &f->err), KILN_DENIED);
    assert_says(f->err.text, f->directory);
    assert_says(f->err.text, "to user");
    /* HOME belongs to another user, as under sudo. */
    (void)!private_directories_find(&f->directories, &f->err);
    assert_null(strstr(f->directories.cache, f->directory));
    assert_null(strstr(f->directories.state, f->directory));
    assert_says(f->directories.why_temporary, "to user");
    expect_nothing_made(f);
}

TEST_F(own_directory, root_follows_no_link_of_another_user)
{
    char link[128];
    snprintf(link, sizeof(link), "%s/to-etc", f->directory);
    assert_int_equal(symlink("/etc", link), 0);
    be_root_in_anothers_directory(f);
    assert_int_equal(own_directory_check(link, &f->err), KILN_DENIED);
}

TEST_F(own_directory, every_directory_on_the_path_must_be_the_users_or_roots)
{
    char below[128];
    snprintf(below, sizeof(below), "%s/a", f->directory);
    SKIP_IF(__real_geteuid() != 0, "needs root");
    assert_int_equal(mkdir(below, 0700) || mkdir(f->path, 0700), 0);
    assert_int_equal(chown(below, STRANGER, STRANGER) || chown(f->path, 1234, 1234), 0);
    pid_t child = fork();
    if (child == 0) {
        if (chmod(f->directory, 0711) || chmod(below, 0711) || setresuid(1234, 1234, 1234))
            _exit(1);
        _exit(own_directory_check(f->path, &f->err) == KILN_DENIED &&
                      own_directory_make(f->path, &f->err) == KILN_DENIED
                  ? 0
                  : 2);
    }
    assert_int_equal(await_child(child), 0);
}

TEST_F(own_directory, a_world_writable_directory_is_refused_unless_it_is_sticky)
{
    assert_int_equal(chmod(f->directory, 0777), 0);
    assert_int_equal(own_directory_make(f->path, &f->err), KILN_DENIED);
    assert_says(f->err.text, "write");
    expect_nothing_made(f);
    assert_int_equal(chmod(f->directory, 01777), 0);
    must(own_directory_make(f->path, &f->err), f->err);
}

TEST_F(own_directory, an_existing_private_directory_must_be_writable_by_its_owner_only)
{
    must(own_directory_make(f->path, &f->err), f->err);
    assert_int_equal(chmod(f->path, 0770), 0);
    assert_int_equal(own_directory_make(f->path, &f->err), KILN_DENIED);
    assert_says(f->err.text, "chmod go-w");
    assert_int_equal(own_directory_make("relative", &f->err), KILN_INVALID);
    assert_int_not_equal(own_directory_check("/nonexistent", &f->err), KILN_OK);
}

TEST_F(own_directory, a_private_path_too_long_for_a_socket_is_replaced_by_a_temporary_directory)
{
    char cache[256];
    snprintf(cache, sizeof(cache), "%s/%0100d", f->directory, 0);
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("TMPDIR", f->directory, 1);
    must(private_directories_find(&f->directories, &f->err), f->err);
    assert_says(f->directories.cache, "/kiln-private-");
    assert_says(f->directories.state, "/.local/state/kiln/private");
    assert_says(f->directories.why_temporary, "socket");
    assert_says(f->directories.socket, f->directories.cache);
}

TEST_F(own_directory, the_state_may_have_a_path_too_long_for_a_socket)
{
    char home[256];
    snprintf(home, sizeof(home), "%s/%0100d", f->directory, 0);
    setenv("XDG_STATE_HOME", home, 1);
    must(private_directories_find(&f->directories, &f->err), f->err);
    assert_says(f->directories.state, home);
    assert_string_equal(f->directories.why_temporary, "");
}

TEST_F(own_directory, a_temporary_directory_may_be_reached_through_a_link)
{
    char link[128], real[128];
    snprintf(link, sizeof(link), "%s/link", f->directory);
    snprintf(real, sizeof(real), "%s/real", f->directory);
    assert_int_equal(mkdir(real, 0700) || symlink(real, link), 0);
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    setenv("TMPDIR", link, 1);
    must(private_directories_find(&f->directories, &f->err), f->err);
    must(private_directories_find(&f->directories, &f->err), f->err);
    assert_says(f->directories.cache, "/link/kiln-private-");
}
