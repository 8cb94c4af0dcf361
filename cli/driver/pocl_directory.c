/* SPDX-License-Identifier: MIT */
#include "cli/driver/pocl_directory.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_DIRECTORIES_MAX 8

static bool is_kernel_cache_wanted(void)
{
    const char *text = getenv("POCL_KERNEL_CACHE");
    return text && text[0] == '1';
}

static const char *place_for_directory(void)
{
    const char *chosen = getenv("POCL_CACHE_DIR"), *temp = getenv("TMPDIR");
    return chosen && *chosen ? chosen : temp && *temp ? temp : "/tmp";
}

bool pocl_directory_is_for(const char *name)
{
    bool is_gpu = name && (strncmp(name, "hip", 3) == 0 || strncmp(name, "cuda", 4) == 0);
    return !is_gpu;
}

bool pocl_directory_is_used(const char *target)
{
    return strncmp(target, "opencl:", 7) == 0 && strstr(target, ":Portable-Computing-Language");
}

void pocl_directory_init(struct pocl_directory *directory)
{
    const char *place = place_for_directory();
    *directory = (struct pocl_directory){ 0 };
    if (is_kernel_cache_wanted())
        return;
    setenv("POCL_KERNEL_CACHE", "0", 1);
    int size = snprintf(directory->path, sizeof(directory->path), "%s/kiln-driver-XXXXXX", place);
    bool is_too_long = size < 0 || (size_t)size >= sizeof(directory->path);
    if (is_too_long || !mkdtemp(directory->path)) {
        snprintf(directory->why_not, sizeof(directory->why_not),
                 "cannot create a directory for PoCL's files in '%.100s' (%s): set TMPDIR or "
                 "POCL_CACHE_DIR to a writable directory",
                 place, is_too_long ? "its path is too long" : strerror(errno));
        directory->path[0] = '\0';
        return;
    }
    setenv("POCL_CACHE_DIR", directory->path, 1);
}

static int remove_entry(const char *path, const struct stat *unused, int kind, struct FTW *place)
{
    (void)unused, (void)kind, (void)place;
    remove(path);
    return 0;
}

void pocl_directory_done(struct pocl_directory *directory)
{
    if (directory->path[0])
        nftw(directory->path, remove_entry, OPEN_DIRECTORIES_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    directory->path[0] = '\0';
}
