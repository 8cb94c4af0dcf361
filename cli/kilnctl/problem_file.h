/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Problems as they go to kilnd in bulk: a sealed memory file of 25 little-endian u32 each, in the
 * order of struct kiln_problem's members behind |size|.
 *
 * Ownership  the descriptor is the caller's
 */
#include "cli/problem_set.h"

CLI_MUST_CHECK int problem_file_make(const struct problem_set *problems, int *ret_fd,
                                     struct kiln_error *err);
