/* SPDX-License-Identifier: MIT */
#pragma once

/* Waits of tests.  Each has a bound, and names what it waited for when it fails.  A wait that fails
 * in the test's own thread fails the test; in a thread or a child process of the test it ends the
 * process. */
#include <stdbool.h>

#define WAIT_MAX_S 60 /* sanitizers on a loaded machine */

/* Calls |holds| every few milliseconds until it returns true.  After WAIT_MAX_S the test fails:
 * "waited 60 s for WHAT". */
void wait_until(const char *what, bool (*holds)(void *context), void *context);

/* The same without failing: returns false after WAIT_MAX_S.  For callers that have more to say. */
bool holds_in_time(bool (*holds)(void *context), void *context);

/* The same as wait_until for a condition in C, often an atomic that another thread sets. */
#define WAIT_FOR(condition)                                 \
    do {                                                    \
        for (unsigned waited_ = 0; !(condition); waited_++) \
            wait_a_little(waited_, #condition);             \
    } while (0)

/* Runs |loop| until |condition| holds.  As an iteration may block, a timer aborts the program. */
#define LOOP_UNTIL(loop, condition) \
    do {                            \
        wait_begin(#condition);     \
        while (!(condition))        \
            loop_iteration(loop);   \
        wait_end();                 \
    } while (0)

/* Runs one statement that may block. After WAIT_MAX_S a timer aborts the program. */
#define IN_TIME(statement)      \
    do {                        \
        wait_begin(#statement); \
        statement;              \
        wait_end();             \
    } while (0)

/* Of the macros. */
void wait_a_little(unsigned waited, const char *what);
void wait_begin(const char *what);
void wait_end(void);
