/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/miopen_version.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The number of digits at |at|; 0 if there is no number of at most four digits. */
static size_t number_at(const char *at)
{
    size_t size = strspn(at, "0123456789");
    return size <= 4 ? size : 0;
}

/* Whether |directory| is called "2.17.0" or "2.17.0.a82233c22". */
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
    size -= directory[size - 1] == '.'; /* a build without a known commit */
    snprintf(ret_version, MIOPEN_VERSION_MAX, "%.*s", (int)size, directory);
    return true;
}
