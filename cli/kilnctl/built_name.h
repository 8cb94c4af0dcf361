/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a package that is built is called: it applies by its name alone.
 *
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <stdbool.h>

struct built_name {
    const char *file;        /* without folders: "gfx90a68.kdb" */
    const char *target;      /* "gfx90a:xnack+", "sm_90" */
    const char *database_id; /* NULL: none was given */
    bool kilns;              /* kiln's own format; else MIOpen's */
};

/* KILN_E_INVALID, with what to type instead, where no GPU would ever use the package.  A package
 * with a database id may have any name: 'pkg install --name' can give it the right one. */
CLI_MUST_CHECK int built_name_check(const struct built_name *name, struct kiln_error *err);
