/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes libc calls fail on demand.
 *
 * The linker replaces libc's functions in kiln's own code (--wrap), so calls inside libc or
 * another library never fail. Only one function fails at a time, but in all threads.
 * failing_calls.c lists the functions that can fail. Naming another function aborts the test. */
#include "common/base/err.h"

#include <stdbool.h>

/* Makes one call of |name| fail with |error|: the |nth| from now on, counted from 1. */
void fail_call(const char *name, unsigned nth, int error);
void fail_calls(const char *name, int error);
/* Ends the failures, as the end of the test does. Returns true if a call has failed. */
bool calls_failed(void);

/* An operation that must fail if a call in it fails, and must otherwise succeed. The operation
 * must leave nothing open, and nothing that changes its next run. */
typedef enum kiln_code fallible(void *context, struct kiln_err *err);

struct failing_call {
    const char *name;
    int error;
    /* for expect_failure: number of the call that fails, counted from 1; 0 means every call */
    unsigned nth;
};
#define FAILING(name, error) ((struct failing_call){ name, error, 1 })
#define FAILING_NTH(name, nth, error) ((struct failing_call){ name, error, nth })
#define FAILING_ALWAYS(name, error) ((struct failing_call){ name, error, 0 })

/* Runs |act| once while |call| fails. |act| must return |code| with a message that contains
 * |words|, and leave as many descriptors open as before. */
void expect_failure(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                    const char *words);

/* Like expect_failure, for each call of |call.name|. The first run fails the first call, the second
 * run the second call, and so on, until no call fails. At least one call must have failed. */
void expect_failures(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                     const char *words);
/* Like expect_failures, but |act| must succeed although calls of |name| fail. */
void expect_no_harm(fallible *act, void *context, const char *name, int error);
