/* SPDX-License-Identifier: MIT */
#include "daemon/loop/quiet_thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

struct beginning {
    void *(*run)(void *context);
    void *context;
};

static atomic_uint count;

static void *begin(void *argument)
{
    struct beginning b = *(struct beginning *)argument;
    free(argument);
    void *result = b.run(b.context);
    atomic_fetch_sub(&count, 1);
    return result;
}

static int start(pthread_t *ret_thread, void *(*run)(void *context), void *context)
{
    struct beginning *b = malloc(sizeof(*b));
    if (!b)
        return ENOMEM;
    *b = (struct beginning){ run, context };
    atomic_fetch_add(&count, 1);
    int errnum = pthread_create(ret_thread, /* attr= */ NULL, begin, b);
    if (errnum) {
        atomic_fetch_sub(&count, 1);
        free(b);
    }
    return errnum;
}

int quiet_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context)
{
    /* Blocked, these would end the process without a word to who handles them. */
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigset_t quiet, before;
    sigfillset(&quiet);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&quiet, faults[i]);
    pthread_sigmask(SIG_SETMASK, &quiet, &before);
    int errnum = start(ret_thread, run, context);
    pthread_sigmask(SIG_SETMASK, &before, /* old= */ NULL);
    return errnum;
}

unsigned quiet_threads(void) { return atomic_load(&count); }

void quiet_threads_forget(void) { atomic_store(&count, 0); }
