/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Files that are there whole, on the disk, or not at all.
 *
 * Role       keys and the records beside installed packages: written under another name, synced,
 *            then moved into place, and the directory synced
 * Threading  one thread at a time for each name
 */
#include "common/bytes.h"
#include "common/err.h"

#include <sys/types.h>

struct whole_file {
    const char *directory, *name;
    struct bytes content;
    mode_t mode;  /* exactly, whatever the umask */
    bool replace; /* else KILN_BUSY when the name is taken */
};

KILN_MUST_CHECK enum kiln_code whole_file_write(const struct whole_file *file,
                                                struct kiln_err *err);
/* What was moved in and out of |directory| stays so after a power cut. */
KILN_MUST_CHECK enum kiln_code whole_file_sync_directory(const char *directory,
                                                         struct kiln_err *err);
