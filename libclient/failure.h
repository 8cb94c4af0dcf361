/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Failures that libkiln returns: the internal error plus the compiler's log.
 *
 * Role       adds the compiler's log, which comes from kilnd, to struct kiln_err; converts the
 *            error and the log to the public struct kiln_error
 * Ownership  a failure owns its log (failure_done); FAILURE_INIT is a valid, empty failure
 * Threading  plain values
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#include <kiln/error.h>

struct failure {
    struct kiln_err err;
    char *log; /* NULL if no compiler ran */
};

#define FAILURE_INIT ((struct failure){ .err = KILN_ERR_INIT })

/* Like FAILURE_INIT, but does not clear the whole text, and so is faster. */
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

/* Takes the failure from kilnd's reply.  An unknown code, or KILN_OK, becomes KILN_CORRUPT. */
enum kiln_code failure_said(struct failure *f, unsigned code, struct bytes text, struct bytes log);

/* Fills |ret_error| unless |code| is KILN_OK.  |ret_error| may be NULL.  Returns the public number
 * of |code| (KILN_E_*). */
int failure_return(const struct failure *f, enum kiln_code code, struct kiln_error *ret_error);
int error_return(const struct kiln_err *err, enum kiln_code code, struct kiln_error *ret_error);
enum kiln_code error_take(int code, const struct kiln_error *error, struct kiln_err *err);
/* Rejects an argument of the caller with KILN_E_INVALID. */
int error_argument(struct kiln_error *ret_error, const char *fmt, ...) KILN_PRINTF(2, 3);
