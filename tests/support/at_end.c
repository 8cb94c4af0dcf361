/* SPDX-License-Identifier: MIT */
/* Implements test_at_end, and the functions of test.h whose results last until the end of a
 * test. */
#include "tests/support/test.h"

#include <ftw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ENDS_MAX 512

static struct {
    void (*end)(void *object);
    void *object;
} ends[ENDS_MAX];
static size_t end_count;

void test_not_at_end(void (*end)(void *object), void *object)
{
    size_t kept = 0;
    for (size_t i = 0; i < end_count; i++) {
        if (ends[i].end != end || ends[i].object != object)
            ends[kept++] = ends[i];
    }
    end_count = kept;
}

void test_at_end(void (*end)(void *object), void *object)
{
    test_not_at_end(end, object);
    assert_true(end_count < ENDS_MAX);
    ends[end_count].end = end;
    ends[end_count++].object = object;
}

size_t test_end_count(void) { return end_count; }

void test_end(size_t kept)
{
    while (end_count > kept) {
        end_count--;
        ends[end_count].end(ends[end_count].object);
    }
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *place)
{
    (void)about, (void)type, (void)place;
    return remove(path);
}

static void remove_directory(void *path)
{
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(path);
}

static void remove_empty_directory(void *path)
{
    bool was_empty = rmdir(path) == 0;
    remove_directory(path);
    assert_true(was_empty);
}

static char *make_directory(void)
{
    static char base[64];
    const char *tmp = getenv("TMPDIR");
    if (!base[0])
        snprintf(base, sizeof(base), "%s", tmp && *tmp ? tmp : "/tmp");
    char *path = malloc(sizeof(base) + 32);
    assert_non_null(path);
    snprintf(path, sizeof(base) + 32, "%s/kiln-test-XXXXXX", base);
    assert_non_null(mkdtemp(path));
    return path;
}

const char *test_directory(void)
{
    char *path = make_directory();
    test_at_end(remove_directory, path);
    return path;
}

const char *test_empty_directory(void)
{
    char *path = make_directory();
    test_at_end(remove_empty_directory, path);
    return path;
}

struct variable {
    const char *name;
    /* earlier value, which the end of the test restores; owned; NULL if the variable was not set */
    char *value;
};

static void restore_variable(void *earlier)
{
    struct variable *v = earlier;
    if (v->value)
        setenv(v->name, v->value, 1);
    else
        unsetenv(v->name);
    free(v->value);
    free(v);
}

void test_setenv(const char *name, const char *value)
{
    struct variable *v = malloc(sizeof(*v));
    const char *before = getenv(name);
    assert_non_null(v);
    *v = (struct variable){ name, before ? strdup(before) : NULL };
    test_at_end(restore_variable, v);
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

void test_unset_variables(const char *const *names)
{
    for (; *names; names++)
        test_setenv(*names, NULL);
}

struct mapping {
    size_t size;
    max_align_t start[];
};

static void unmap(void *mapping) { munmap(mapping, ((struct mapping *)mapping)->size); }

void *test_shared_memory(size_t size)
{
    struct mapping *m =
        mmap(NULL, sizeof(*m) + size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    m->size = sizeof(*m) + size;
    test_at_end(unmap, m);
    return m->start;
}

static void close_file(void *file) { fclose(file); }

FILE *test_file(void)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    test_at_end(close_file, file);
    return file;
}
