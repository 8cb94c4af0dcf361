/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A command line of MIOpenDriver's as a job: libkiln says what it means, this what kiln-driver
 * cannot do of it.
 *
 * Ownership  a job is a plain value
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <kiln/problem.h>

/* As kiln_driver_line_parse(); also KILN_E_INVALID for a number as solver. */
CLI_MUST_CHECK int job_parse(const char *line, struct kiln_driver_line *ret_job,
                             struct kiln_error *err);
CLI_MUST_CHECK int job_parse_words(const char *const *words, size_t count,
                                   struct kiln_driver_line *ret_job, struct kiln_error *err);
