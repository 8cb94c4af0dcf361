/* SPDX-License-Identifier: MIT */
#include "engine/compile/clang_find.h"

#include "tests/support/failing_calls.h"
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    const char *newest;
    char before[512]; /* the working directory before the test */
};

/* Writes a fake clang. Whatever its arguments are, it prints a version and the target amdgcn. */
static void write_clang(const char *directory, const char *name, unsigned version)
{
    char text[128];
    const char *clang = test_path(directory, name), *linker = test_path(directory, "ld.lld");
    snprintf(text, sizeof(text), "#!/bin/sh\necho 'clang version %u.0.0'\necho amdgcn\n", version);
    test_write_text(clang, text);
    test_write_text(linker, "");
    assert_int_equal(chmod(clang, 0755), 0);
    assert_int_equal(chmod(linker, 0755), 0);
}

static void return_to(void *directory) { assert_int_equal(chdir(directory), 0); }

SET_UP(make_two)
{
    const char *directory = test_directory(), *in_path = test_subdirectory(directory, "path");
    const char *rocm = test_subdirectory(directory, "rocm");
    const char *llvm = test_subdirectory(rocm, "llvm"), *bin = test_subdirectory(llvm, "bin");
    write_clang(in_path, "clang", 39);
    write_clang(bin, "clang", 38);
    test_setenv("PATH", in_path);
    test_setenv("KILN_ROCM_PATH", rocm);
    f->newest = test_path(in_path, "clang");
    assert_non_null(getcwd(f->before, sizeof(f->before)));
    test_at_end(return_to, f->before);
    /* clang_find stores clang's output in a temporary file of the working directory */
    assert_int_equal(chdir(directory), 0);
}

FIXTURE(clang_find, make_two, NULL);

static enum kiln_code find_newest(void *context, struct kiln_err *err)
{
    const struct fixture *f = context;
    char path[CLANG_PATH_MAX];
    enum kiln_code rc = clang_find(path, err);
    if (!rc)
        assert_string_equal(path, f->newest);
    return rc;
}

TEST_F(clang_find, a_failed_step_of_the_search_does_not_choose_another_clang)
{
    struct kiln_err err = KILN_ERR_INIT;
    must(find_newest(f, &err), err);
    expect_failures(find_newest, f, FAILING("strdup", ENOMEM), KILN_NO_MEMORY, "clang");
    expect_failures(find_newest, f, FAILING("calloc", ENOMEM), KILN_NO_MEMORY, "clang");
    expect_failures(find_newest, f, FAILING("realloc", ENOMEM), KILN_NO_MEMORY, "memory");
    expect_failures(find_newest, f, FAILING("fork", EAGAIN), KILN_BUSY, "clang");
    expect_failures(find_newest, f, FAILING("pread", EIO), KILN_IO, "cannot read");
}

TEST_F(clang_find, a_clang_that_fails_is_not_chosen)
{
    struct kiln_err err = KILN_ERR_INIT;
    test_write_text(f->newest, "#!/bin/sh\nexit 1\n");
    char path[CLANG_PATH_MAX];
    must(clang_find(path, &err), err);
    assert_string_not_equal(path, f->newest);
}
