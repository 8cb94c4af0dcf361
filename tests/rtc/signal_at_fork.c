/* SPDX-License-Identifier: MIT */
/* A library to preload.  Sends SIGTERM to a process that has just forked. */
#include <pthread.h>
#include <signal.h>

static void send_signal(void) { raise(SIGTERM); }

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, send_signal, NULL);
}
