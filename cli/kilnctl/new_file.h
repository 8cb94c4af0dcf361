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
    bool replace; /* if false, an existing file is KILN_E_IO */
    mode_t mode;  /* 0 means 0666 without the bits of the umask */
    int from;     /* a descriptor to copy the content from; -1 to write |data| */
    const void *data;
    size_t size;
};

CLI_MUST_CHECK int new_file_write(const struct new_file *file, struct kiln_error *err);
const char *new_file_name(const char *path);
