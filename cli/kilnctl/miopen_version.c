/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/miopen_version.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The digits at |at|, at most four of them; 0: there is no number. */
static size_t number_at(const char *at)
{
    size_t size = strspn(at, "0123456789");
    return size <= 4 ? size : 0;
}

/* Whether |folder| is called "2.17.0" or "2.17.0.a82233c22". */
static bool is_version(const char *folder, size_t folder_size)
{
    size_t at = 0;
    for (int part = 0; part < 3; part++) {
        size_t digits = number_at(folder + at);
        if (digits == 0)
            return false;
        at += digits;
        if (part < 2 && folder[at++] != '.')
            return false;
    }
    if (at == folder_size)
        return true;
    size_t tweak = at + 1;
    while (tweak < folder_size && (isalnum((unsigned char)folder[tweak]) || folder[tweak] == '-'))
        tweak++;
    return folder[at] == '.' && tweak == folder_size;
}

bool miopen_version_of_path(const char *path, char ret_version[MIOPEN_VERSION_MOST])
{
    const char *end = strrchr(path, '/'), *folder = end;
    if (!end)
        return false;
    while (folder > path && folder[-1] != '/')
        folder--;
    size_t size = (size_t)(end - folder);
    if (size >= MIOPEN_VERSION_MOST || !is_version(folder, size))
        return false;
    size -= folder[size - 1] == '.'; /* of a build that no commit is known of */
    snprintf(ret_version, MIOPEN_VERSION_MOST, "%.*s", (int)size, folder);
    return true;
}
