/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Answers a compile from kilnd, or compiles with the real library and stores its result.
 *
 * Role       does the steps of a compile that are the same for all run-time compilers, and counts
 *            how each compile ended
 * Ownership  the caller owns the program
 * Threading  any thread, but only one thread at a time for a program
 */
#include "libclient/rtc/program.h"

struct answer_calls { /* what differs between the kinds of run-time compilers */
    /* Compiles with the real library.  Returns the library's code, 0 for success. */
    int (*run)(struct rtc_program *program);
    /* Appends the result of |run|.  Returns false if a part of it cannot be stored. */
    bool (*collect)(struct rtc_program *program, struct buffer *to);
    /* Uses a stored result, and takes ownership of |stored|.  Returns false if |stored| is
     * damaged. */
    bool (*use)(struct rtc_program *program, struct kiln_kernel *stored);
    /* Lets kilnd compile, and uses its result.  Returns false if kilnd cannot compile the program.
     * May be NULL. */
    bool (*delegate)(struct rtc_program *program);
};

/* Compiles |program|, or uses a result of kilnd. |shared| is as in lookup_begin.  Returns the code
 * for the caller of the library's function. */
int answer_compile(const struct answer_calls *calls, struct rtc_program *program,
                   const struct digest *shared);
