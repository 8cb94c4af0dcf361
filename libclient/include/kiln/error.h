/* SPDX-License-Identifier: MIT */
#ifndef KILN_ERROR_H
#define KILN_ERROR_H

/*
 * Errors: a code for programs, a sentence for people.
 *
 * Every call that can fail returns an int: KILN_E_OK (0) or one of the codes below.  Its last
 * parameter is a struct kiln_error of the caller's, or NULL; on failure it receives the code,
 * the sentence (outermost context first, no full stop) and, where a compiler was at work, its log.
 * On success it is left alone.  Nothing is kept in thread-local state.
 *
 * Other structs begin with |size|, which the caller sets to sizeof the struct, and may grow at
 * their end.  Every call takes one that is smaller than the library's own, down to what the first
 * release with that struct had: the members that it lacks count as zero, or are not filled in.  It
 * takes a larger one too and leaves alone what it does not know.  Structs of one array have the
 * same size.
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
    KILN_E_BUSY = 5,            /* in progress, or too much asked at once */
    KILN_E_CORRUPT = 6,         /* data failed its check */
    KILN_E_UNAVAILABLE = 7,     /* a needed service or library is absent */
    KILN_E_GPU_FAULT = 8,       /* the GPU or its driver failed */
    KILN_E_IO = 9,              /* input/output failed */
    KILN_E_NO_MEMORY = 10,      /* out of memory */
    KILN_E_CANCELLED = 11,      /* cancelled by the caller */
    KILN_E_TIMED_OUT = 12,      /* not done within the time allowed */
    KILN_E_COMPILE_FAILED = 13, /* the compiler refused, crashed or was stopped */
    KILN_E_UNSUPPORTED = 14     /* no solver, toolchain or device here can do it */
};

struct kiln_error {
    int code;
    char text[512]; /* terminated; "" after success */
    char log[4096]; /* the beginning of the compiler's log; "" where there was none */
};

/* "NOT_FOUND"; "?" for an unknown code.  Static storage. */
const char *kiln_error_name(int code);
/* "no such entry"; "?" for an unknown code.  Static storage. */
const char *kiln_error_text(int code);
/* 1 when asking again later may succeed, else 0. */
int kiln_error_is_retryable(int code);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
