/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/snapshot_program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef KILN_TRANSFER_FROM_KILNCTL
#define KILN_TRANSFER_FROM_KILNCTL "../libexec/kiln/kiln-transfer"
#endif

bool snapshot_program_find(char ret_path[PATH_MAX])
{
    static const char *const places[] = { "kiln-transfer", KILN_TRANSFER_FROM_KILNCTL };
    char self[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[size > 0 ? size : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int length = snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (length > 0 && length < PATH_MAX && access(ret_path, X_OK) == 0)
            return true;
    }
    return false;
}
