/* SPDX-License-Identifier: MIT */
#pragma once

/* Files in the directory of a test. */
#include "tests/support/test.h"
#include "tests/support/test_files.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline const char *scratch_path(const char *directory, const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", directory, name);
    return path;
}

static inline void scratch_write(const char *directory, const char *name, const char *text)
{
    char path[512];
    test_write_text(scratch_path(directory, name, path), text);
}

/* Writes |text| to a new file, and returns the file's path in |path|. */
static inline void scratch_create(const char *directory, const char *name, const char *text,
                                  char path[512])
{
    scratch_write(directory, name, text);
    scratch_path(directory, name, path);
}

static inline const char *scratch_read(const char *directory, const char *name, char *text,
                                       size_t size)
{
    char path[512];
    FILE *in = fopen(scratch_path(directory, name, path), "re");
    text[in ? fread(text, 1, size - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    return text;
}

static inline bool scratch_has(const char *directory, const char *name)
{
    char path[512];
    return access(scratch_path(directory, name, path), F_OK) == 0;
}
