/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Builds a package of problems: compiles their kernels, lets kilnd pack them, writes and signs the
 * file, and reports.
 *
 * Role       implements `pkg build` and `trace pack`
 * Ownership  everything is borrowed
 * Threading  main thread
 */
#include "cli/kilnctl/command.h"
#include "cli/problem_set.h"

struct build_options {
    const char *target, *database_id, *output, *format, *toolchain, *key;
    const char *problems; /* the path of a file; ignored by pkg_build_problems */
    bool keep_going;
};

/* |problems| may be NULL: the options then name a file.  |name| is the command's, for messages. */
CLI_MUST_CHECK int pkg_build_problems(const struct invocation *invocation, const char *name,
                                      const struct build_options *o,
                                      const struct problem_set *problems, struct kiln_error *err);
