/* SPDX-License-Identifier: MIT */
/* Which folders the engine in a job's process makes its own, and whose variables it believes. */
#include "common/own_folder.h"
#include "daemon/embedded/places.h"

#include "common/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define STRANGER 4242u

struct fixture {
    char folder[64];
    char path[128]; /* below it, not there */
    struct kiln_err err;
    struct embedded_options options;
    struct embedded_places places;
};

static bool is_privileged, seems_root;

unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type)
{
    return type == AT_SECURE && is_privileged ? 1 : __real_getauxval(type);
}

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void) { return seems_root ? 0 : __real_geteuid(); }

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .err = KILN_ERR_INIT };
    is_privileged = seems_root = false;
    snprintf(f.folder, sizeof(f.folder), "/tmp/kiln-test-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.path, sizeof(f.path), "%s/a/b", f.folder);
    setenv("HOME", f.folder, 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("XDG_STATE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    fs_remove_tree(AT_FDCWD, f->folder);
    return 0;
}

FIXTURE(trust, set_up, tear_down);

/* As for root, with a folder of another user's. */
static void be_root_in_anothers_folder(struct fixture *f)
{
    if (__real_geteuid() == 0)
        assert_int_equal(chown(f->folder, STRANGER, STRANGER), 0);
    seems_root = true;
}

static void expect_nothing_made(const struct fixture *f)
{
    char below[256];
    snprintf(below, sizeof(below), "%s/a", f->folder);
    assert_int_not_equal(access(below, F_OK), 0);
    snprintf(below, sizeof(below), "%s/.cache", f->folder);
    assert_int_not_equal(access(below, F_OK), 0);
    snprintf(below, sizeof(below), "%s/.local", f->folder);
    assert_int_not_equal(access(below, F_OK), 0);
}

TEST(trust, a_folder_in_ones_own_is_made_private)
{
    struct fixture *f = *state;
    struct stat seen;
    must(own_folder_make(f->path, &f->err), f->err);
    assert_int_equal(stat(f->path, &seen), 0);
    assert_int_equal(seen.st_mode & 0777, 0700);
    must(own_folder_make(f->path, &f->err), f->err); /* once it is there */
}

TEST(trust, root_makes_nothing_in_another_users_folder)
{
    struct fixture *f = *state;
    be_root_in_anothers_folder(f);
    assert_int_equal(own_folder_make(f->path, &f->err), KILN_DENIED);
    assert_says(f->err.text, f->folder);
    assert_says(f->err.text, "belongs to user");
    embedded_places_find(&f->options, &f->places); /* HOME is that user's: sudo */
    assert_true(f->places.memory);
    assert_says(f->places.why, "belongs to user");
    expect_nothing_made(f);
}

TEST(trust, root_follows_no_link_of_another_users)
{
    struct fixture *f = *state;
    char link[128];
    snprintf(link, sizeof(link), "%s/to-etc", f->folder);
    assert_int_equal(symlink("/etc", link), 0);
    be_root_in_anothers_folder(f);
    assert_int_equal(own_folder_check(link, &f->err), KILN_DENIED);
}

TEST(trust, a_folder_that_anybody_may_write_to_is_none_but_a_sticky_one)
{
    struct fixture *f = *state;
    assert_int_equal(chmod(f->folder, 0777), 0);
    assert_int_equal(own_folder_make(f->path, &f->err), KILN_DENIED);
    assert_says(f->err.text, "anybody may write to");
    expect_nothing_made(f);
    assert_int_equal(chmod(f->folder, 01777), 0);
    must(own_folder_make(f->path, &f->err), f->err);
}

TEST(trust, one_that_is_there_already_has_to_be_this_users_alone)
{
    struct fixture *f = *state;
    must(own_folder_make(f->path, &f->err), f->err);
    assert_int_equal(chmod(f->path, 0770), 0);
    assert_int_equal(own_folder_make(f->path, &f->err), KILN_DENIED);
    assert_says(f->err.text, "chmod go-w");
    assert_int_equal(own_folder_make("relative", &f->err), KILN_INVALID);
    assert_int_not_equal(own_folder_check("/nonexistent", &f->err), KILN_OK);
}

TEST(trust, a_compilers_files_go_where_nobody_can_swap_them)
{
    struct fixture *f = *state;
    char program[128];
    const char *const names[] = { "kiln-compiler", "kiln-launch" };
    for (size_t i = 0; i < 2; i++) {
        snprintf(program, sizeof(program), "%s/%s", f->folder, names[1 - i]);
        int fd = open(program, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
        assert_true(fd >= 0);
        close(fd);
    }
    setenv("KILN_COMPILER", program, 1);
    setenv("TMPDIR", f->folder, 1);
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.temp, f->folder);
    assert_int_equal(chmod(f->folder, 0777), 0);
    embedded_places_find(&f->options, &f->places);
    assert_string_equal(f->places.temp, "/tmp");
    unsetenv("KILN_COMPILER");
}

TEST(trust, a_program_with_more_rights_believes_no_variable)
{
    struct fixture *f = *state;
    is_privileged = true;
    setenv("KILN_COMPILER", "/bin/sh", 1);
    embedded_places_find(&f->options, &f->places);
    assert_true(f->places.memory);
    assert_says(f->places.why, "setuid");
    assert_string_equal(f->places.compiler, "");
    assert_says(f->places.no_compiler, "setuid");
    expect_nothing_made(f);
    unsetenv("KILN_COMPILER");
}
