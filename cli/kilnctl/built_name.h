/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * File names of packages that kilnctl builds.  The name alone determines which devices use a
 * package.
 *
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stddef.h>

struct built_name {
    const char *file;
    const char *target;
    const char *database_id;
    bool kilns; /* true for kiln's own format, false for MIOpen's */
};

/* Returns KILN_E_INVALID if |database_id| is malformed or belongs to a device other than |target|.
 * |database_id| may be NULL. */
CLI_MUST_CHECK int device_id_check(const char *database_id, const char *target,
                                   struct kiln_error *err);

bool device_id_is_kilns(const char *database_id, size_t size);

/* Returns the beginning of a package's name: the database id or, for NVIDIA GPUs, the target,
 * because all GPUs of a target use the same package.  Returns NULL for OpenCL devices, whose
 * packages are only used in an embedded build. */
const char *built_name_stem(const char *database_id, const char *target);
/* Returns KILN_E_INVALID, with a better command, if no GPU would ever use the package.  A package
 * with a database id may have any name, because 'pkg install --name' can change it. */
CLI_MUST_CHECK int built_name_check(const struct built_name *name, struct kiln_error *err);
