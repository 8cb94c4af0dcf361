/* SPDX-License-Identifier: MIT */
#pragma once

/* Writes problems into a file for kilnd: a sealed memfd.  Each problem is 26 little-endian u32, in
 * the order of struct kiln_problem's members after |size|.
 *
 * Ownership  the caller owns the descriptor
 * Threading  one thread */
#include "cli/problem_set.h"

CLI_MUST_CHECK int problem_file_make(const struct problem_set *problems, int *ret_fd,
                                     struct kiln_error *err);
