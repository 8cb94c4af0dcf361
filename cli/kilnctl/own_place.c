/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/own_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool own_place(const char *relative, const char *name, char ret_path[PATH_MAX])
{
    char self[PATH_MAX], place[PATH_MAX], directory[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[size > 0 ? size : 0] = '\0';
    const char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    snprintf(place, sizeof(place), "%.*s/%s", (int)(slash - self), self, relative);
    if (!realpath(place, directory))
        return false;
    int length = snprintf(ret_path, PATH_MAX, "%s/%s", directory, name);
    return length < PATH_MAX && access(ret_path, R_OK) == 0;
}
