/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scratch_directory {
    char path[256];
};

static inline void scratch_directory_make(struct scratch_directory *f)
{
    const char *base = getenv("TMPDIR");
    snprintf(f->path, sizeof(f->path), "%s/kiln_cli_XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(f->path));
}

static inline unsigned scratch_directory_count(const struct scratch_directory *f)
{
    unsigned count = 0;
    DIR *directory = opendir(f->path);
    assert_non_null(directory);
    for (struct dirent *e = readdir(directory); e; e = readdir(directory))
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(directory);
    return count;
}

static inline const char *scratch_path(const struct scratch_directory *f, const char *name,
                                       char path[512])
{
    snprintf(path, 512, "%s/%s", f->path, name);
    return path;
}

static inline void scratch_write(const struct scratch_directory *f, const char *name,
                                 const char *text)
{
    char path[512];
    FILE *out = fopen(scratch_path(f, name, path), "we");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* |text| is "" if the file does not exist. */
static inline const char *scratch_read(const struct scratch_directory *f, const char *name,
                                       char *text, size_t size)
{
    char path[512];
    FILE *in = fopen(scratch_path(f, name, path), "re");
    text[in ? fread(text, 1, size - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    return text;
}

static inline bool scratch_has(const struct scratch_directory *f, const char *name)
{
    char path[512];
    return access(scratch_path(f, name, path), F_OK) == 0;
}

static inline void scratch_directory_remove(const struct scratch_directory *f)
{
    DIR *directory = opendir(f->path);
    for (struct dirent *e = directory ? readdir(directory) : NULL; e; e = readdir(directory)) {
        struct scratch_directory inner;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int size = snprintf(inner.path, sizeof(inner.path), "%s/%s", f->path, e->d_name);
        assert_true(size > 0 && (size_t)size < sizeof(inner.path));
        if (unlink(inner.path) != 0)
            scratch_directory_remove(&inner);
    }
    if (directory)
        closedir(directory);
    rmdir(f->path);
}

/* Defines FIXTURE(|suite|) for struct fixture, which has a member |directory|. Each test gets a
 * zeroed fixture with a new directory, which |prepare| then fills. */
#define SCRATCH_FIXTURE(suite, prepare)            \
    static int set_up(void **state)                \
    {                                              \
        struct fixture *f = calloc(1, sizeof(*f)); \
        assert_non_null(f);                        \
        scratch_directory_make(&f->directory);     \
        prepare(f);                                \
        *state = f;                                \
        return 0;                                  \
    }                                              \
    static int tear_down(void **state)             \
    {                                              \
        struct fixture *f = *state;                \
        scratch_directory_remove(&f->directory);   \
        free(f);                                   \
        return 0;                                  \
    }                                              \
    FIXTURE(suite, set_up, tear_down)
