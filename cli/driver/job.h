/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An MIOpenDriver command line as a job.
 *
 * Ownership  a job is a plain value
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <kiln/problem.h>

/* Like kiln_driver_line_parse(), but returns KILN_E_INVALID if the solver is a number. */
CLI_MUST_CHECK int job_parse(const char *line, struct kiln_driver_line *ret_job,
                             struct kiln_error *err);
CLI_MUST_CHECK int job_parse_words(const char *const *words, size_t count,
                                   struct kiln_driver_line *ret_job, struct kiln_error *err);
