/* SPDX-License-Identifier: MIT */
#pragma once

/* Waits with a time limit. A wait that takes too long fails the test, or aborts the process if
 * the caller is another thread or a child. */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define WAIT_MAX_S 60 /* time limit of a wait; long enough for sanitizers on a loaded machine */

/* Calls |holds| every few milliseconds until it returns true. After WAIT_MAX_S, fails the test
 * with "waited 60 s for WHAT". */
void wait_until(const char *what, bool (*holds)(void *context), void *context);

/* Like wait_until, but returns false instead of failing the test. */
bool holds_in_time(bool (*holds)(void *context), void *context);

/* Like wait_until, for a C expression, which often reads an atomic that another thread sets. */
#define WAIT_FOR(condition)                                 \
    do {                                                    \
        for (unsigned waited_ = 0; !(condition); waited_++) \
            wait_a_little(waited_, #condition);             \
    } while (0)

/* Runs iterations of |loop| until |condition| holds. An iteration may block, so a timer aborts
 * the program after WAIT_MAX_S. */
#define LOOP_UNTIL(loop, condition) \
    do {                            \
        wait_begin(#condition);     \
        while (!(condition))        \
            loop_iteration(loop);   \
        wait_end();                 \
    } while (0)

/* Runs |loop| until it has no open handle. After WAIT_MAX_S, a timer aborts the program. */
#define LOOP_TO_END(loop, what) \
    do {                        \
        wait_begin(what);       \
        loop_run(loop);         \
        wait_end();             \
    } while (0)

#define LOOP_CLOSE(loop)                                           \
    do {                                                           \
        LOOP_TO_END(loop, "the handles of the loop to be closed"); \
        loop_destroy(loop);                                        \
    } while (0)

/* Runs one statement that may block. After WAIT_MAX_S a timer aborts the program. */
#define IN_TIME(statement)      \
    do {                        \
        wait_begin(#statement); \
        statement;              \
        wait_end();             \
    } while (0)

/* Calls pthread_join(3), but fails after WAIT_MAX_S: "waited 60 s for the thread 'THREAD' to
 * end". |ret_value| may be NULL. */
#define await_thread(thread, ret_value) \
    await_thread_long((thread), (ret_value), "the thread '" #thread "' to end", WAIT_MAX_S)
void await_thread_long(pthread_t thread, void **ret_value, const char *what, int max_s);

/* For the loop of a thread that serves a test. Waits without a time limit until one of |fds| is
 * ready. Returns false if |fds[0]| is ready, by which the test ends the thread. */
bool await_work(struct pollfd *fds, unsigned count);

/* Waits until the thread |tid| of this process sleeps in a system call. */
void await_sleep(pid_t tid);

void fail_wait(int seconds, const char *what);

void wait_a_little(unsigned waited, const char *what);
void wait_begin(const char *what);
void wait_end(void);
