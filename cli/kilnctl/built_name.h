/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a package that is built is called: it applies by its name alone.
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
    bool kilns;              /* kiln's own format; else MIOpen's */
};

/* KILN_E_INVALID where |database_id| is none, or another device's than |target|.  NULL is fine. */
CLI_MUST_CHECK int device_id_check(const char *database_id, const char *target,
                                   struct kiln_error *err);

/* Whether it is one that MIOpen knows nothing of: "sm_90_132".  Of |size| letters. */
bool device_id_is_kilns(const char *database_id, size_t size);

/* What the name of a package for a device begins with: its database id, but of NVIDIA's GPUs, whose
 * code objects are for a target, that.  NULL of OpenCL devices: for an embedded build alone. */
const char *built_name_stem(const char *database_id, const char *target);
/* KILN_E_INVALID, with what to type instead, where no GPU would ever use the package.  A package
 * with a database id may have any name: 'pkg install --name' can give it the right one. */
CLI_MUST_CHECK int built_name_check(const struct built_name *name, struct kiln_error *err);
