/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Threads that no signal is delivered to but those of their own faults: in a job's process its
 * handlers never run on a thread that it does not know.
 *
 * Threading  any thread; what such a thread starts is as quiet
 */
#include <pthread.h>

/* 0, or an errno. */
int quiet_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context);
/* How many run in this process. */
unsigned quiet_threads(void);
/* In a child of fork, which has none of them. */
void quiet_threads_forget(void);
