/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Failures on their way out of libkiln: the internal error, and the compiler's log with it.
 *
 * Role       struct kiln_err plus what only kilnd can add, and its form in the public headers
 * Ownership  a failure owns its log (failure_done); FAILURE_INIT is a legal, empty one
 * Threading  plain values
 */
#include "common/bytes.h"
#include "common/err.h"

#include <kiln/error.h>

struct failure {
    struct kiln_err err;
    char *log; /* owned, terminated; NULL where no compiler was at work */
};

#define FAILURE_INIT ((struct failure){ .err = KILN_ERR_INIT })

/* The same without clearing all of the text. */
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

/* What kilnd said: its code, sentence and log.  A code that is not in the table, or that says
 * that all is well, becomes KILN_CORRUPT. */
enum kiln_code failure_said(struct failure *f, unsigned code, struct bytes text, struct bytes log);

/* To the caller: fills |ret_error| (may be NULL) unless |code| is KILN_OK, and returns |code| as
 * KILN_E_*. */
int failure_return(const struct failure *f, enum kiln_code code, struct kiln_error *ret_error);
/* The same where there is no log. */
int error_return(const struct kiln_err *err, enum kiln_code code, struct kiln_error *ret_error);
/* The other way, inside libkiln: what one of its own calls failed with. */
enum kiln_code error_take(int code, const struct kiln_error *error, struct kiln_err *err);
/* Refuses an argument: KILN_E_INVALID with the sentence. */
int error_argument(struct kiln_error *ret_error, const char *fmt, ...) KILN_PRINTF(2, 3);
