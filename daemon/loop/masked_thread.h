/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Threads that no signal is delivered to but those of their own faults.
 *
 * Threading  any thread; what such a thread starts is as quiet
 */
#include <pthread.h>

/* 0, or an errno. */
int masked_thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context);
