/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/miopen_version.h"

#include "engine/miopen/names/miopen_files.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static size_t number_at(const char *at)
{
    size_t size = strspn(at, "0123456789");
    return size <= 4 ? size : 0;
}

static bool is_version(const char *directory, size_t directory_size)
{
    size_t at = 0;
    for (int part = 0; part < 3; part++) {
        size_t digits = number_at(directory + at);
        if (digits == 0)
            return false;
        at += digits;
        if (part < 2 && directory[at++] != '.')
            return false;
    }
    if (at == directory_size)
        return true;
    size_t tweak = at + 1;
    while (tweak < directory_size &&
           (isalnum((unsigned char)directory[tweak]) || directory[tweak] == '-'))
        tweak++;
    return directory[at] == '.' && tweak == directory_size;
}

bool miopen_version_of_path(const char *path, char ret_version[MIOPEN_VERSION_MAX])
{
    const char *end = strrchr(path, '/'), *directory = end;
    if (!end)
        return false;
    while (directory > path && directory[-1] != '/')
        directory--;
    size_t size = (size_t)(end - directory);
    if (size >= MIOPEN_VERSION_MAX || !is_version(directory, size))
        return false;
    /* A build whose commit is not known has a directory whose name ends with a dot. */
    size -= directory[size - 1] == '.';
    snprintf(ret_version, MIOPEN_VERSION_MAX, "%.*s", (int)size, directory);
    return true;
}

void miopen_version_take(const char *given, char ret_version[MIOPEN_VERSION_MAX])
{
    size_t size = strnlen(given, MIOPEN_VERSION_MAX - 1);
    size -= size > 0 && given[size] == '\0' && given[size - 1] == '.';
    memcpy(ret_version, given, size);
    ret_version[size] = '\0';
}

bool miopen_version_is_link(const char *path)
{
    char target[2];
    return readlink(path, target, sizeof(target)) == 1 && target[0] == '.';
}

int miopen_version_link(const char *cache, const char *version, struct kiln_error *err)
{
    char name[MIOPEN_VERSION_TEXT], path[PATH_MAX];
    if (miopen_release(version) < MIOPEN_WITH_VERSIONED_CACHE)
        return KILN_E_OK;
    miopen_version_write(version, '.', name);
    if (snprintf(path, sizeof(path), "%s/%s", cache, name) >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "the path '%.200s...' is too long", cache);
    if (symlink(".", path) == 0 || (errno == EEXIST && miopen_version_is_link(path)))
        return KILN_E_OK;
    if (errno == EEXIST)
        return cli_fail(err, KILN_E_IO,
                        "'%.300s' exists, and MIOpen %.40s looks for kernels in it: move its files "
                        "to another directory and remove it",
                        path, version);
    return cli_fail_errno(err, errno, "cannot create the link '%s'", path);
}
