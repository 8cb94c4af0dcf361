/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Error reporting in the programs.  It uses libkiln's codes and error struct, so the library's
 * errors and the programs' own errors propagate the same way.
 *
 * Threading  no shared state; nothing allocates
 */
#include <kiln/error.h>

struct kiln_err;

#define CLI_MUST_CHECK __attribute__((warn_unused_result))
#define CLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Stores the failure in |err| and returns |code|, so that one statement can report and return
 * it. */
int cli_fail(struct kiln_error *err, int code, const char *fmt, ...) CLI_PRINTF(3, 4);
/* Like cli_fail, with the text of |errnum| appended.  Returns KILN_E_DENIED, KILN_E_NO_MEMORY or
 * KILN_E_IO. */
int cli_fail_errno(struct kiln_error *err, int errnum, const char *fmt, ...) CLI_PRINTF(3, 4);
/* Stores the error of json_parse: KILN_E_NO_MEMORY, or KILN_E_CORRUPT for text that is not JSON. */
int cli_fail_json(struct kiln_error *err, const struct kiln_err *why);
/* Prefixes an error with the operation that failed ("<operation>: "); returns its code. */
int cli_while(struct kiln_error *err, const char *fmt, ...) CLI_PRINTF(2, 3);
