/* SPDX-License-Identifier: MIT */
#include "common/base/own_directory.h"

#include "common/base/fs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The uid that Linux shows for users that do not exist in this container (overflowuid in
 * proc_sys_kernel(5)). */
#define UNMAPPED 65534u

/* Returns whether this process runs in a container and |uid| is UNMAPPED.  A file in a container
 * has this owner if its real owner exists only outside of the container.  The real owner is usually
 * the host's root, who owns "/" and "/home". */
static bool is_unmapped_host_user(uid_t uid)
{
    unsigned first = 0, outside = 0, count = 0;
    FILE *map = uid == UNMAPPED ? fopen("/proc/self/uid_map", "re") : NULL;
    if (!map)
        return false;
    bool is_read = fscanf(map, "%u %u %u", &first, &outside, &count) == 3;
    fclose(map);
    return is_read && count != UINT_MAX;
}

/* Fails if other users may change the directory.  A world-writable directory is safe if it has the
 * sticky bit: users can then only remove or rename their own entries. */
static enum kiln_code refuse_other_users(const char *path, const struct stat *seen,
                                         struct kiln_err *err)
{
    if (seen->st_uid != 0 && seen->st_uid != geteuid() && !is_unmapped_host_user(seen->st_uid))
        return kiln_fail(
            err, KILN_DENIED,
            "'%s' belongs to user %u, not to user %u: change its owner, or use another "
            "directory",
            path, (unsigned)seen->st_uid, (unsigned)geteuid());
    if (S_ISDIR(seen->st_mode) && seen->st_mode & S_IWOTH && !(seen->st_mode & S_ISVTX))
        return kiln_fail(err, KILN_DENIED, "every user may write to '%s': run chmod o-w on it",
                         path);
    return KILN_OK;
}

static enum kiln_code check_owner(const char *path, struct kiln_err *err)
{
    struct stat seen;
    if (lstat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", path);
    return refuse_other_users(path, &seen, err);
}

static enum kiln_code check_path_parts(const char *path, struct kiln_err *err)
{
    char part[PATH_MAX];
    enum kiln_code rc = check_owner("/", err);
    for (const char *at = path + 1; !rc && *at; at += *at == '/') {
        at += strcspn(at, "/");
        snprintf(part, sizeof(part), "%.*s", (int)(at - path), path);
        rc = check_owner(part, err);
    }
    return rc;
}

enum kiln_code own_directory_check(const char *path, struct kiln_err *err)
{
    char real[PATH_MAX];
    if (path[0] != '/' || strlen(path) >= sizeof(real))
        return kiln_fail(err, KILN_INVALID,
                         "'%.100s' is too long or not an absolute path: give another one", path);
    if (!realpath(path, real))
        return kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", path);
    enum kiln_code rc = check_path_parts(path, err);
    return rc ? rc : check_path_parts(real, err);
}

static enum kiln_code find_existing_directory(const char *path, char ret_there[PATH_MAX],
                                              struct kiln_err *err)
{
    if (path[0] != '/' || strlen(path) >= PATH_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "'%.100s' is too long or not an absolute path: give another one", path);
    strcpy(ret_there, path);
    if (fs_cut_to_existing(ret_there) != 0)
        return kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", ret_there);
    return KILN_OK;
}

/* Checks the directories between |there| and |path|, because another user may have created one of
 * them before this process did. */
static enum kiln_code check_made_directories(const char *path, const char *there,
                                             struct kiln_err *err)
{
    char part[PATH_MAX];
    enum kiln_code rc = KILN_OK;
    strcpy(part, path);
    for (char *end; !rc && strlen(part) > strlen(there); *end = '\0') {
        rc = check_owner(part, err);
        end = strrchr(part, '/');
    }
    return rc;
}

enum kiln_code own_directory_make(const char *path, struct kiln_err *err)
{
    char there[PATH_MAX];
    struct stat seen;
    enum kiln_code rc = find_existing_directory(path, there, err);
    if (!rc)
        rc = own_directory_check(there, err);
    if (!rc)
        rc = fs_make_directories(path, err);
    if (!rc)
        rc = check_made_directories(path, there, err);
    if (rc)
        return rc;
    if (stat(path, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read the attributes of '%s'", path);
    if (seen.st_uid != geteuid())
        return kiln_fail(
            err, KILN_DENIED,
            "'%s' belongs to user %u, not to user %u: change its owner, or use another "
            "directory",
            path, (unsigned)seen.st_uid, (unsigned)geteuid());
    if (seen.st_mode & (S_IWGRP | S_IWOTH))
        return kiln_fail(err, KILN_DENIED, "other users may write to '%s': run chmod go-w on it",
                         path);
    return KILN_OK;
}
