/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Atomic files: after a crash a file is either complete on the disk or absent.
 *
 * Role       writes keys and package records
 * Threading  one thread at a time for each name
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#include <sys/types.h>

struct whole_file {
    const char *directory, *name;
    struct bytes content;
    mode_t mode;  /* the file's mode, which the umask does not change */
    bool replace; /* false: whole_file_write returns KILN_BUSY if the name exists */
};

KILN_MUST_CHECK enum kiln_code whole_file_write(const struct whole_file *file,
                                                struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code whole_file_sync_directory(const char *directory,
                                                         struct kiln_err *err);
