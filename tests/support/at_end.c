/* SPDX-License-Identifier: MIT */
/* Ends what a test opened, after its tear-down. */
#include "tests/support/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENDS_MAX 64

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

const char *test_directory(void)
{
    static char base[64];
    const char *tmp = getenv("TMPDIR");
    if (!base[0])
        snprintf(base, sizeof(base), "%s", tmp && *tmp ? tmp : "/tmp");
    char *path = malloc(sizeof(base) + 32);
    assert_non_null(path);
    snprintf(path, sizeof(base) + 32, "%s/kiln-test-XXXXXX", base);
    assert_non_null(mkdtemp(path));
    test_at_end(remove_directory, path);
    return path;
}
