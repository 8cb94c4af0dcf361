/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes many problems into one file for kilnd: a sealed memory file with 26 little-endian u32 per
 * problem, in the order of the members of struct kiln_problem after |size|.
 *
 * Ownership  the caller owns the descriptor
 * Threading  one thread
 */
#include "cli/problem_set.h"

CLI_MUST_CHECK int problem_file_make(const struct problem_set *problems, int *ret_fd,
                                     struct kiln_error *err);
