/* SPDX-License-Identifier: MIT */
#include "engine/db/working_directory.h"

#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>

static char *name_working_directory(char *room, size_t size)
{
    return snprintf(room, size, "/proc/self/cwd") < (int)size ? room : NULL;
}

/* A link looks like what it leads to, so that it is not replaced by that one's path. */
static int look_behind(const char *path, struct stat *ret_seen) { return stat(path, ret_seen); }

void db_stay_in_working_directory(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    vfs->xSetSystemCall(vfs, "getcwd", (sqlite3_syscall_ptr)name_working_directory);
    vfs->xSetSystemCall(vfs, "lstat", (sqlite3_syscall_ptr)look_behind);
}
