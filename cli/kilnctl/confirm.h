/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Asks for confirmation before stored kernels are removed.  |dry_run_answer| and |answer| are
 * replies of kilnd with the members "kernels" and "bytes".
 *
 * Threading  main thread; blocks until the user answers
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdio.h>

struct json;

/* Returns KILN_E_INVALID if confirmation is needed but no user can be asked.  The message names the
 * missing option. */
CLI_MUST_CHECK int confirm_possible(bool yes, bool dry_run, struct kiln_error *err);
/* Return KILN_E_CANCELLED unless the answer is yes. */
CLI_MUST_CHECK int confirm_drop(const struct json *dry_run_answer, struct kiln_error *err);
CLI_MUST_CHECK int confirm_read(struct kiln_error *err);
void confirm_say(FILE *out, const char *before, const struct json *answer, const char *after);
