/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Failures that libkiln returns: the internal error plus the compiler's log.
 *
 * Role       adds to struct kiln_err the compiler's log, which comes from kilnd, and converts both
 *            to the public struct
 * Ownership  a failure owns its log (failure_done); FAILURE_INIT is a valid, empty failure
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#include <kiln/error.h>

struct failure {
    struct kiln_err err;
    char *log; /* owned, terminated; NULL if no compiler ran */
};

#define FAILURE_INIT ((struct failure){ .err = KILN_ERR_INIT })

/* Has the same effect as FAILURE_INIT, but is faster, because it does not clear the whole text. */
static inline void failure_init(struct failure *f)
{
    kiln_err_init(&f->err);
    f->log = NULL;
}

static inline void failure_done(struct failure *f)
{
    free(f->log);
    f->log = NULL;
}
#define FAILURE_AUTO __attribute__((cleanup(failure_done)))

/* Stores the code, message and log of kilnd's reply.  An unknown code, or KILN_OK, becomes
 * KILN_CORRUPT. */
enum kiln_code failure_said(struct failure *f, unsigned code, struct bytes text, struct bytes log);

/* Fills |ret_error|, which may be NULL, for the caller, unless |code| is KILN_OK.  Returns the
 * public number of |code| (KILN_E_*). */
int failure_return(const struct failure *f, enum kiln_code code, struct kiln_error *ret_error);
/* Like failure_return, for an error without a log. */
int error_return(const struct kiln_err *err, enum kiln_code code, struct kiln_error *ret_error);
/* Converts a public error to the internal one, after a call of a public function inside libkiln. */
enum kiln_code error_take(int code, const struct kiln_error *error, struct kiln_err *err);
/* Rejects an argument of the caller: returns KILN_E_INVALID with the message. */
int error_argument(struct kiln_error *ret_error, const char *fmt, ...) KILN_PRINTF(2, 3);
