/* SPDX-License-Identifier: MIT */
#include "daemon/loop/masked_thread.h"

#include <signal.h>
#include <stddef.h>

int masked_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context)
{
    /* If these signals were blocked, a fault would end the process without calling its handler. */
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
    sigset_t quiet, before;
    sigfillset(&quiet);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&quiet, faults[i]);
    pthread_sigmask(SIG_SETMASK, &quiet, &before);
    int errnum = pthread_create(ret_thread, /* attr= */ NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, /* old= */ NULL);
    return errnum;
}
