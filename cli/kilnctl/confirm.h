/* SPDX-License-Identifier: MIT */
#pragma once

/* Asks the user before stored kernels are removed.  |dry_run_answer| and |answer| are kilnd's
 * replies; their members "kernels" and "bytes" say how much is removed.
 *
 * Threading  main thread; blocks until the user answers */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdio.h>

struct json;

/* Returns KILN_E_INVALID if the user must confirm, but there is no terminal. The message names the
 * option that replaces the confirmation. Commands call this before the dry run. */
CLI_MUST_CHECK int confirm_possible(bool yes, bool dry_run, struct kiln_error *err);
/* Ask the user. Return KILN_E_CANCELLED unless the answer is yes. */
CLI_MUST_CHECK int confirm_drop(const struct json *dry_run_answer, struct kiln_error *err);
CLI_MUST_CHECK int confirm_read(struct kiln_error *err);
void confirm_say(FILE *out, const char *before, const struct json *answer, const char *after);
