/* SPDX-License-Identifier: MIT */
#ifndef KILN_ERROR_H
#define KILN_ERROR_H

/*
 * Errors: a code for programs, a message for people.
 *
 * Every call that can fail returns an int: KILN_E_OK (0) or one of the codes below.  The last
 * parameter of the call is a struct kiln_error of the caller, or NULL.  On failure, the struct
 * receives the code and the message (outermost context first, no full stop).  If a compiler ran,
 * the struct also receives the compiler's log.  On success the struct is not changed.  Nothing is
 * kept in thread-local state.
 *
 * Every struct except kiln_error and kiln_header begins with |size|, which the caller sets to the
 * size of the struct.  Later releases may append members.  A call accepts a struct of any earlier
 * release, which is smaller than the library's definition: missing inputs count as zero, and
 * missing results are not filled in.  A call also accepts the larger struct of a later release, and
 * ignores members that it does not know.  All structs of one array have the same size.
 *
 * Threads    A struct kiln_error belongs to one thread at a time.
 */
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum {
    KILN_E_OK = 0,
    KILN_E_NOT_FOUND = 1,       /* no such entry */
    KILN_E_INVALID = 2,         /* arguments or request not understood */
    KILN_E_DENIED = 3,          /* not allowed */
    KILN_E_FULL = 4,            /* quota or disk exhausted */
    KILN_E_BUSY = 5,            /* in progress, or too many requests at once */
    KILN_E_CORRUPT = 6,         /* data failed its check */
    KILN_E_UNAVAILABLE = 7,     /* a needed service or library is absent */
    KILN_E_GPU_FAULT = 8,       /* the GPU or its driver failed */
    KILN_E_IO = 9,              /* input/output failed */
    KILN_E_NO_MEMORY = 10,      /* out of memory */
    KILN_E_CANCELLED = 11,      /* cancelled by the caller */
    KILN_E_TIMED_OUT = 12,      /* not done within the time-out */
    KILN_E_COMPILE_FAILED = 13, /* the compiler failed, crashed or was stopped */
    KILN_E_UNSUPPORTED = 14     /* no solver, toolchain or device of this host can do it */
};

struct kiln_error {
    int code;
    char text[512]; /* NUL-terminated; not changed on success */
    char log[4096]; /* the first bytes of the compiler's log; "" if no compiler ran */
};

/* Returns the code's name, such as "NOT_FOUND", or "?" for an unknown code.  Static storage. */
const char *kiln_error_name(int code);
/* Returns the code's meaning, such as "no such entry", or "?" for an unknown code.  Static
 * storage. */
const char *kiln_error_text(int code);
/* Returns 1 if the same call may succeed later, else 0. */
int kiln_error_is_retryable(int code);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
