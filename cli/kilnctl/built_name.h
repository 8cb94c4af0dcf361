/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * File names of packages that kilnctl builds.  The name alone decides where a package applies.
 *
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stddef.h>

struct built_name {
    const char *file;        /* without directories: "gfx90a68.kdb" */
    const char *target;      /* "gfx90a:xnack+", "sm_90" */
    const char *database_id; /* NULL: none was given */
    bool kilns;              /* in kiln's own format; else in MIOpen's */
};

/* KILN_E_INVALID if |database_id| is malformed or belongs to a device other than |target|.
 * Accepts NULL. */
CLI_MUST_CHECK int device_id_check(const char *database_id, const char *target,
                                   struct kiln_error *err);

/* Whether only kiln, not MIOpen, knows the id: "sm_90_132".  |size| is its length. */
bool device_id_is_kilns(const char *database_id, size_t size);

/* How the name of a device's package begins: with the database id, or for NVIDIA GPUs with the
 * target, because their code objects belong to a target.  NULL for OpenCL devices, whose packages
 * serve only an embedded build. */
const char *built_name_stem(const char *database_id, const char *target);
/* KILN_E_INVALID, with a better command, if no GPU would ever use the package.  A package with a
 * database id may have any name, because 'pkg install --name' can correct it. */
CLI_MUST_CHECK int built_name_check(const struct built_name *name, struct kiln_error *err);
