/* SPDX-License-Identifier: MIT */
#pragma once

/* Chooses and checks the file names of packages that kilnctl builds.  A device only uses a package
 * whose name begins with the device's id or target.
 *
 * Threading  pure functions */
#include "cli/fail.h"

#include <stdbool.h>
#include <stddef.h>

struct built_name {
    const char *file;
    const char *target;
    const char *database_id;
    bool kilns; /* the package has kiln's own format, not MIOpen's */
};

/* Returns KILN_E_INVALID if |database_id| is malformed or does not belong to a device with
 * |target|. |database_id| may be NULL. */
CLI_MUST_CHECK int device_id_check(const char *database_id, const char *target,
                                   struct kiln_error *err);

bool device_id_is_kilns(const char *database_id, size_t size);

/* Returns how a package's name must begin: with the database id or, for NVIDIA GPUs, with the
 * target, because all GPUs with this target use the same package. Returns NULL for OpenCL devices,
 * whose packages only an embedded build uses. */
const char *built_name_stem(const char *database_id, const char *target);
/* Returns KILN_E_INVALID, and suggests a better command, if no GPU would use a package with this
 * name. If a database id is given, any name is valid, because 'pkg install --name' can rename the
 * package. */
CLI_MUST_CHECK int built_name_check(const struct built_name *name, struct kiln_error *err);
