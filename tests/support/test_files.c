/* SPDX-License-Identifier: MIT */
/* Uses stdio, because some tests make open(2), read(2) and write(2) fail. */
#include "tests/support/test_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *test_path(const char *directory, const char *name)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
    test_at_end(free, path);
    return path;
}

const char *test_subdirectory(const char *directory, const char *name)
{
    const char *path = test_path(directory, name);
    assert_int_equal(mkdir(path, 0755), 0);
    return path;
}

void test_write(const char *path, struct bytes content)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    if (content.size)
        assert_int_equal(fwrite(content.data, 1, content.size, file), content.size);
    assert_int_equal(fclose(file), 0);
}

void test_write_text(const char *path, const char *text)
{
    test_write(path, bytes_of(text, strlen(text)));
}

struct bytes test_read(const char *path)
{
    struct stat about;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &about) != 0)
        fail_msg("cannot read '%s'", path);
    size_t size = (size_t)about.st_size;
    char *text = malloc(size + 1);
    assert_non_null(text);
    test_at_end(free, text);
    assert_int_equal(fread(text, 1, size, file), size);
    text[size] = '\0';
    fclose(file);
    return bytes_of(text, size);
}

char *test_read_text(const char *path) { return (char *)(uintptr_t)test_read(path).data; }
