/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One command line of MIOpenDriver's, understood: up to three problems and how to run them.
 *
 * Ownership  a plain value
 */
#include "cli/driver/flags.h"

#include <kiln/problem.h>

struct job {
    struct run_flags flags;
    struct kiln_problem problems[3];
    unsigned count;
};

CLI_MUST_CHECK int job_parse(const char *line, struct job *ret_job, struct kiln_error *err);
