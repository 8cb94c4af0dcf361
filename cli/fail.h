/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Error reporting in the programs, with libkiln's codes and error struct.
 *
 * Threading  no shared state; nothing allocates
 */
#include <kiln/error.h>

struct kiln_err;

#define CLI_MUST_CHECK __attribute__((warn_unused_result))
#define CLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

int cli_fail(struct kiln_error *err, int code, const char *fmt, ...) CLI_PRINTF(3, 4);
/* Appends the text of |errnum|.  Returns KILN_E_DENIED, KILN_E_NO_MEMORY or KILN_E_IO. */
int cli_fail_errno(struct kiln_error *err, int errnum, const char *fmt, ...) CLI_PRINTF(3, 4);
int cli_fail_json(struct kiln_error *err, const struct kiln_err *why);
/* Puts "<operation>: " in front of the error's message.  Returns the error's code. */
int cli_while(struct kiln_error *err, const char *fmt, ...) CLI_PRINTF(2, 3);
