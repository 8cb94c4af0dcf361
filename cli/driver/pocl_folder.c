/* SPDX-License-Identifier: MIT */
#include "cli/driver/pocl_folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_FOLDERS_MOST 8

void pocl_folder_init(struct pocl_folder *folder)
{
    const char *temp = getenv("TMPDIR");
    *folder = (struct pocl_folder){ 0 };
    setenv("POCL_KERNEL_CACHE", "0", /* overwrite= */ 0);
    if (getenv("POCL_CACHE_DIR"))
        return;
    int size = snprintf(folder->path, sizeof(folder->path), "%s/kiln-driver-XXXXXX",
                        temp && *temp ? temp : "/tmp");
    if (size < 0 || (size_t)size >= sizeof(folder->path) || !mkdtemp(folder->path)) {
        folder->path[0] = '\0';
        return;
    }
    setenv("POCL_CACHE_DIR", folder->path, /* overwrite= */ 0);
}

static int remove_one(const char *path, const struct stat *unused, int kind, struct FTW *place)
{
    (void)unused, (void)kind, (void)place;
    remove(path); /* what cannot be removed stays in the folder for temporary files */
    return 0;
}

void pocl_folder_done(struct pocl_folder *folder)
{
    if (folder->path[0])
        nftw(folder->path, remove_one, OPEN_FOLDERS_MOST, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    folder->path[0] = '\0';
}
