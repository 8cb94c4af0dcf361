/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Asking before stored kernels are dropped.
 *
 * An answer that is shown here has "kernels" and "bytes": what was, or would be, dropped.
 */
#include "cli/fail.h"

#include <stdbool.h>
#include <stdio.h>

struct json;

/* KILN_E_INVALID, with what to add, where there is nobody to ask. */
CLI_MUST_CHECK int confirm_possible(bool yes, bool dry_run, struct kiln_error *err);
/* Says what is at stake and waits for the word; KILN_E_CANCELLED unless it is yes. */
CLI_MUST_CHECK int confirm_drop(const struct json *dry_run_answer, struct kiln_error *err);
/* "<before>3 kernels, 4.0 KiB<after>" */
void confirm_say(FILE *out, const char *before, const struct json *answer, const char *after);
