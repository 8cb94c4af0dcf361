/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Asks for confirmation before stored kernels are removed.
 *
 * kilnd's replies, whose amounts these functions print, have the members "kernels" and "bytes": how
 * much was removed or, in a dry run, would be removed.
 *
 * Threading  main thread; blocks until the user answers
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdio.h>

struct json;

/* Checks that a user can be asked, or need not be asked.  Otherwise returns KILN_E_INVALID; the
 * message names the missing option. */
CLI_MUST_CHECK int confirm_possible(bool yes, bool dry_run, struct kiln_error *err);
/* Shows the amounts and waits for an answer; returns KILN_E_CANCELLED unless the answer is yes. */
CLI_MUST_CHECK int confirm_drop(const struct json *dry_run_answer, struct kiln_error *err);
/* Reads the answer to a question; returns KILN_E_CANCELLED unless it is yes. */
CLI_MUST_CHECK int confirm_read(struct kiln_error *err);
/* Prints "<before>3 kernels, 4.0 KiB<after>". */
void confirm_say(FILE *out, const char *before, const struct json *answer, const char *after);
