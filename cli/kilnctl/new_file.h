/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files that a command writes: whole and on the disk, or not there at all.
 *
 * Role       written beside their place under another name, synced, then moved there
 * Threading  one thread
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <sys/types.h>

struct new_file {
    const char *path;
    bool replace; /* else KILN_E_IO where there is one already */
    mode_t mode;  /* 0: what the umask leaves of 0666 */
    int from;     /* a file whose content it gets; -1: |data| */
    const void *data;
    size_t size; /* bytes of |data| */
};

CLI_MUST_CHECK int new_file_write(const struct new_file *file, struct kiln_error *err);
/* The last part of |path|. */
const char *new_file_name(const char *path);
