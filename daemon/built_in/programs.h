/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Paths of the programs that compile for a static build (libkiln.a), and of the directory in which
 * these programs may write.
 *
 * Threading  pure functions of the environment and the filesystem; may block
 */
#include "common/base/err.h"
#include "common/base/paths.h"

struct built_in_programs {
    char compiler[PATH_TEXT_MAX];
    char launch[PATH_TEXT_MAX];
    char temp[PATH_TEXT_MAX];
};

/* Returns KILN_UNAVAILABLE if a program is missing, or if this process has more rights than the
 * user who started it: that user could choose the programs by environment variables. */
KILN_MUST_CHECK enum kiln_code built_in_programs_find(struct built_in_programs *ret_programs,
                                                      struct kiln_err *err);
