/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes a command's output files atomically: each file is complete and synced, or does not exist.
 *
 * Role       writes under a temporary name in the same directory, syncs, then renames
 * Threading  one thread
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <sys/types.h>

struct new_file {
    const char *path;
    bool replace; /* if not set, an existing file gives KILN_E_IO */
    mode_t mode;  /* 0 means 0666, reduced by the umask */
    int from;     /* descriptor of the content; -1 means that |data| is the content */
    const void *data;
    size_t size;
};

CLI_MUST_CHECK int new_file_write(const struct new_file *file, struct kiln_error *err);
const char *new_file_name(const char *path);
