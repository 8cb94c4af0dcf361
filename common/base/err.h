/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Errors: a code for programs, a message for people.
 *
 * A call that can fail returns enum kiln_code.  Its last parameter is a caller-owned struct
 * kiln_err, never NULL, that receives the message.  Nothing here allocates, so errors can be
 * reported when memory is exhausted.
 *
 * Expected results, such as KILN_NOT_FOUND from a look-up, have only a code and no message.
 *
 * Threading  plain values, no shared state
 */
#include <stdarg.h>
#include <stdbool.h>

#define KILN_MUST_CHECK __attribute__((warn_unused_result))
#define KILN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

enum kiln_code {
#define KILN_CODE(name, number, retry, text) KILN_##name = (number),
#include "common/base/err_codes.def"
#undef KILN_CODE
};

struct kiln_err {
    enum kiln_code code;
    char text[512]; /* outermost context first */
};

#define KILN_ERR_INIT ((struct kiln_err){ .code = KILN_OK })

/* Does the same as KILN_ERR_INIT, but faster: it does not clear the whole text. */
static inline void kiln_err_init(struct kiln_err *err)
{
    err->code = KILN_OK;
    err->text[0] = '\0';
}

enum kiln_code kiln_fail(struct kiln_err *err, enum kiln_code code, const char *fmt, ...)
    KILN_PRINTF(3, 4);

/* Derives the code from |errnum|, and appends the text of |errnum|. */
enum kiln_code kiln_fail_errno(struct kiln_err *err, int errnum, const char *fmt, ...)
    KILN_PRINTF(3, 4);

/* Puts a context, such as "cannot read the plan: ", in front of the error's message. */
enum kiln_code kiln_while(struct kiln_err *err, const char *fmt, ...) KILN_PRINTF(2, 3);

const char *kiln_code_name(enum kiln_code code); /* such as "NOT_FOUND"; "?" for an unknown code */
const char *kiln_code_text(enum kiln_code code);
bool kiln_code_is_retryable(enum kiln_code code);
