/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Threads that block all signals except those that report the thread's own faults.
 *
 * Threading  any thread; threads that such a thread starts inherit its signal mask
 */
#include <pthread.h>

/* Returns 0 or an errno. */
int masked_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context);
