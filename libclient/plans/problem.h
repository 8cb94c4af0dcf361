/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Converts problems between struct kiln_problem, which is public, and struct problem.
 *
 * Threading  pure functions
 */
#include "common/protocol/problem.h"

#include <kiln/problem.h>

/* Checks the problem like problem_check(). */
KILN_MUST_CHECK enum kiln_code problem_from_public(const struct kiln_problem *from,
                                                   struct problem *ret_problem,
                                                   struct kiln_err *err);
