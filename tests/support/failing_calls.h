/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes libc calls fail on demand.
 *
 * Role       the linker replaces libc's functions in kiln's own code (--wrap), so calls made by
 *            the code under test fail, never those inside libc or another library
 * Threading  one function at a time, for all threads: one call of it fails, or all later ones
 *
 * failing_calls.c lists the functions; naming another one aborts the test.
 */
#include "common/base/err.h"

#include <stdbool.h>

/* Makes only the |nth| call of |name| from now on fail with |error|, counted from 1. */
void fail_call(const char *name, unsigned nth, int error);
/* Makes every call of |name| fail. */
void fail_calls(const char *name, int error);
/* Ends the failures. True if a call has failed. */
bool calls_failed(void);

/* An operation that must fail if a call in it fails, and must otherwise succeed. It leaves nothing
 * open, and nothing that changes its next run. */
typedef enum kiln_code fallible(void *context, struct kiln_err *err);

/* A function of libc, and the errno with which a call of it fails. */
struct failing_call {
    const char *name;
    int error;
    unsigned nth; /* for expect_failure: which call, counted from 1; 0: every call */
};
#define FAILING(name, error) ((struct failing_call){ name, error, 1 })
#define FAILING_NTH(name, nth, error) ((struct failing_call){ name, error, nth })
#define FAILING_ALWAYS(name, error) ((struct failing_call){ name, error, 0 })

/* Runs |act| once while |call| fails. It must return |code| with a message that contains |words|,
 * and leave as many descriptors open as before. */
void expect_failure(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                    const char *words);

/* Runs |act| repeatedly: the first, then the second, ... call of |call.name| fails, until no call
 * failed. Each failed run must return |code| with a message that contains |words|, and leave as
 * many descriptors open as before. At least one call must have failed. */
void expect_failures(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                     const char *words);
/* The same for calls whose failure |act| survives. */
void expect_no_harm(fallible *act, void *context, const char *name, int error);
