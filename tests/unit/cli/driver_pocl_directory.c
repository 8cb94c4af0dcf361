/* SPDX-License-Identifier: MIT */
#include "cli/driver/pocl_directory.h"
#include "tests/support/test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    const char *temp;
    struct pocl_directory directory;
};

SET_UP(set_up)
{
    f->temp = test_empty_directory();
    test_setenv("POCL_CACHE_DIR", NULL);
    test_setenv("POCL_KERNEL_CACHE", NULL);
    test_setenv("TMPDIR", f->temp);
}

FIXTURE(driver_pocl_directory, set_up, NULL);

static void make_file(const char *directory, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    fclose(out);
}

TEST_F(driver_pocl_directory, files_that_pocl_leaves_in_its_directory_are_removed_with_it)
{
    char inner[512];
    pocl_directory_init(&f->directory);
    assert_string_equal(getenv("POCL_CACHE_DIR"), f->directory.path);
    assert_string_equal(getenv("POCL_KERNEL_CACHE"), "0");
    assert_int_equal(strncmp(f->directory.path, f->temp, strlen(f->temp)), 0);
    snprintf(inner, sizeof(inner), "%s/inner", f->directory.path);
    assert_int_equal(mkdir(inner, 0700), 0);
    make_file(f->directory.path, "tempfile_1");
    make_file(inner, "tempfile_2");

    pocl_directory_done(&f->directory);

    assert_int_equal(access(inner, F_OK), -1);
}

TEST_F(driver_pocl_directory, pocls_kernel_cache_stays_on_if_the_user_enabled_it)
{
    setenv("POCL_KERNEL_CACHE", "1", 1);
    pocl_directory_init(&f->directory);
    pocl_directory_done(&f->directory);
    assert_null(getenv("POCL_CACHE_DIR"));
    setenv("POCL_CACHE_DIR", f->temp, 1);
    pocl_directory_init(&f->directory);
    pocl_directory_done(&f->directory);
    assert_string_equal(getenv("POCL_CACHE_DIR"), f->temp);
    assert_string_equal(getenv("POCL_KERNEL_CACHE"), "1");
}

TEST_F(driver_pocl_directory, processes_with_the_same_parent_directory_get_private_ones)
{
    struct pocl_directory other;
    unsetenv("TMPDIR");
    setenv("POCL_CACHE_DIR", f->temp, 1);
    pocl_directory_init(&f->directory);
    assert_string_equal(getenv("POCL_CACHE_DIR"), f->directory.path);
    setenv("POCL_CACHE_DIR", f->temp, 1);
    pocl_directory_init(&other);
    assert_string_equal(getenv("POCL_CACHE_DIR"), other.path);
    assert_string_not_equal(f->directory.path, other.path);
    assert_int_equal(strncmp(other.path, f->temp, strlen(f->temp)), 0);
    pocl_directory_done(&other);
    assert_int_equal(access(f->directory.path, F_OK), 0);
    pocl_directory_done(&f->directory);
}

TEST_F(driver_pocl_directory, without_a_temporary_directory_pocl_uses_its_default)
{
    setenv("TMPDIR", "/nonexistent", 1);
    pocl_directory_init(&f->directory);
    assert_null(getenv("POCL_CACHE_DIR"));
    assert_says(f->directory.why_not, "'/nonexistent'");
    assert_says(f->directory.why_not, "TMPDIR");
    assert_says(f->directory.why_not, "POCL_CACHE_DIR");
    pocl_directory_done(&f->directory);
    setenv("TMPDIR", f->temp, 1);
    pocl_directory_init(&f->directory);
    assert_string_equal(f->directory.why_not, "");
    pocl_directory_done(&f->directory);
}

TEST(driver_pocl_directory, only_opencl_devices_get_a_directory_for_pocl)
{
    assert_true(pocl_directory_is_for(NULL));
    assert_true(pocl_directory_is_for("auto"));
    assert_true(pocl_directory_is_for("opencl:0"));
    assert_false(pocl_directory_is_for("hip://GPU-1234"));
    assert_false(pocl_directory_is_for("cuda:0"));
    assert_true(pocl_directory_is_used("opencl:pthread-x:Portable-Computing-Language-3.1-ab"));
    assert_false(pocl_directory_is_used("opencl:gpu:Some-OpenCL-2.0-ab"));
    assert_false(pocl_directory_is_used("gfx90a"));
}
