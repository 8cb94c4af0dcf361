/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes libc calls fail on demand.
 *
 * Role       the linker replaces libc's functions in kiln's own code (--wrap), so only calls that
 *            the code under test makes fail, never those inside libc or another library
 * Threading  one function is chosen at a time, for all threads; one call of it fails, or all from
 *            then on
 *
 * failing_calls.c lists the functions; naming another one aborts the test.
 */
#include "common/err.h"

#include <stdbool.h>

/* The |nth| call of |name| from now on, counted from 1, fails with |error|; no other one does. */
void fail_call(const char *name, unsigned nth, int error);
/* Every call from the first on. */
void fail_calls(const char *name, int error);
/* No call fails any more; whether one did. */
bool calls_failed(void);

/* Something that is to fail where a call of it fails, and succeed where none does.  It leaves
 * nothing open, and nothing that would let the next time differ. */
typedef enum kiln_code fallible(void *context, struct kiln_err *err);

/* A function of libc, and the errno with which a call of it fails. */
struct failing_call {
    const char *name;
    int error;
};
#define FAILING(name, error) ((struct failing_call){ name, error })

/* The first, the second, ... call of |call.name| in |act| fails with |error| until it passes
 * without: each time it has to end with |code| and a sentence with |words| in it, and as many
 * descriptors open as before.  At least one call must have failed. */
void expect_failures(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                     const char *words);
/* The same where a failed call does no harm. */
void expect_no_harm(fallible *act, void *context, const char *name, int error);
