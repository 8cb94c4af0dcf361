/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/test.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

/* Returns how many entries of |directory| have names that begin with |prefix|. Does not count
 * "." and "..". */
static inline unsigned entry_count(const char *directory, const char *prefix)
{
    unsigned count = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        bool is_entry = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
        count += is_entry && strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    }
    closedir(dir);
    return count;
}

/* Returns the number of open descriptors of |pid|. If |pid| is the test itself, the result
 * includes the descriptor that this function opens. */
static inline unsigned descriptor_count(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    return entry_count(path, "");
}
