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
    const char *problems; /* the path of a file; unused if pkg_build_problems gets problems */
    bool keep_going, records, generic;
};

/* Builds the package.  If |problems| is NULL, |o->problems| names a file of problems.  |name| is
 * the name of the command, for messages. */
CLI_MUST_CHECK int pkg_build_problems(const struct invocation *invocation, const char *name,
                                      const struct build_options *o,
                                      const struct problem_set *problems, struct kiln_error *err);
