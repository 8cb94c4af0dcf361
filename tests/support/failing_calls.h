/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes libc calls fail on demand. The linker replaces libc's functions in kiln's own code
 * (--wrap), so calls inside libc or another library never fail. Only one function fails at a
 * time, but in all threads. failing_calls.c lists the functions that can fail. Naming another
 * function aborts the test. */
#include "common/base/err.h"

#include <stdbool.h>

/* Makes the |nth| call of |name| from now on (1: the next) fail with |error|. fail_calls makes
 * every call fail. */
void fail_call(const char *name, unsigned nth, int error);
void fail_calls(const char *name, int error);
/* Makes all calls succeed again, as the end of the test does. Returns true if a call has failed. */
bool calls_failed(void);

/* The operation that a test runs while a call fails. It must leave nothing open, and nothing
 * that changes its next run. */
typedef enum kiln_code fallible(void *context, struct kiln_err *err);

struct failing_call {
    const char *name;
    int error;
    /* the call that expect_failure makes fail, counted from 1; 0 means every call */
    unsigned nth;
};
#define FAILING(name, error) ((struct failing_call){ name, error, 1 })
#define FAILING_NTH(name, nth, error) ((struct failing_call){ name, error, nth })
#define FAILING_ALWAYS(name, error) ((struct failing_call){ name, error, 0 })

/* Runs |act| while |call| fails. |act| must return |code| with a message that contains |words|,
 * and leave as many descriptors open as before. */
void expect_failure(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                    const char *words);

/* Calls expect_failure for the first call of |call.name| in |act|, then for the second, and so
 * on, until |act| makes fewer calls. |act| must call |call.name| at least once. */
void expect_failures(fallible *act, void *context, struct failing_call call, enum kiln_code code,
                     const char *words);
/* Like expect_failures, but |act| must succeed although calls of |name| fail. */
void expect_no_harm(fallible *act, void *context, const char *name, int error);
