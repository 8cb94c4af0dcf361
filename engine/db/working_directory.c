/* SPDX-License-Identifier: MIT */
#include "engine/db/working_directory.h"

#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>

/* Replaces getcwd(3), which fails if a parent of the directory is not accessible. */
static char *name_working_directory(char *buffer, size_t size)
{
    return snprintf(buffer, size, "/proc/self/cwd") < (int)size ? buffer : NULL;
}

/* Replaces lstat(2), which would show SQLite that /proc/self/cwd is a symbolic link. SQLite would
 * then open the path to which the link leads, but this process cannot open that path. */
static int stat_target(const char *path, struct stat *ret_seen) { return stat(path, ret_seen); }

void db_stay_in_working_directory(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    vfs->xSetSystemCall(vfs, "getcwd", (sqlite3_syscall_ptr)name_working_directory);
    vfs->xSetSystemCall(vfs, "lstat", (sqlite3_syscall_ptr)stat_target);
}
