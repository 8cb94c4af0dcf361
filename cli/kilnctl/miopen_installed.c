/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/miopen_installed.h"

#include "cli/kilnctl/overlay_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BELOW_PREFIX "share/miopen/db"
#define USUAL_PREFIX "/opt/rocm"

static bool is_directory(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 && S_ISDIR(seen.st_mode);
}

/* Returns whether |path| is the system/ directory of an overlay. Such a directory is not MIOpen's
 * own: its databases may be out of date, and some files are links to MIOpen's own directory. */
static bool is_of_overlay(const char *path)
{
    char manifest[PATH_MAX];
    return snprintf(manifest, sizeof(manifest), "%s/../" OVERLAY_MANIFEST, path) < PATH_MAX &&
           access(manifest, F_OK) == 0;
}

static bool find_below(const char *prefix, char ret_path[PATH_MAX])
{
    return snprintf(ret_path, PATH_MAX, "%s/" BELOW_PREFIX, prefix) < PATH_MAX &&
           is_directory(ret_path);
}

/* Finds MIOpen's own directory as MIOpen does: MIOpen resolves the links of its library's path, and
 * goes to the parent of the library's directory. */
static bool find_by_library(const char *directory, size_t size, char ret_path[PATH_MAX])
{
    char library[PATH_MAX], real[PATH_MAX];
    if (size == 0 ||
        snprintf(library, sizeof(library), "%.*s/libMIOpen.so.1", (int)size, directory) >=
            PATH_MAX ||
        !realpath(library, real))
        return false;
    *strrchr(real, '/') = '\0';
    char *slash = strrchr(real, '/');
    if (slash)
        *slash = '\0';
    return slash && find_below(real, ret_path);
}

static bool find_on_library_path(char ret_path[PATH_MAX])
{
    const char *at = getenv("LD_LIBRARY_PATH");
    while (at && *at) {
        size_t size = strcspn(at, ":");
        if (find_by_library(at, size, ret_path))
            return true;
        at += size + (at[size] == ':');
    }
    return false;
}

bool miopen_installed_find(char ret_path[PATH_MAX])
{
    const char *given = getenv("MIOPEN_SYSTEM_DB_PATH"), *rocm = getenv("ROCM_PATH");
    if (given && *given && !is_of_overlay(given)) {
        snprintf(ret_path, PATH_MAX, "%s", given);
        return is_directory(given);
    }
    if (find_on_library_path(ret_path) || (rocm && *rocm && find_below(rocm, ret_path)) ||
        find_below(USUAL_PREFIX, ret_path) || find_below("/usr", ret_path))
        return true;
    snprintf(ret_path, PATH_MAX, USUAL_PREFIX "/" BELOW_PREFIX);
    return false;
}
