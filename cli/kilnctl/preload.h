/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The value of LD_PRELOAD with which a program's run-time compiles go to kilnd.
 *
 * Threading  main thread
 */
#include <kiln/error.h>

#include <limits.h>

enum { PRELOAD_MAX = 2 * PATH_MAX };

/* Writes the path of libkiln-rtc, followed by the current value of LD_PRELOAD.  If that value
 * begins with the path already, writes it unchanged.  Fails if the library cannot be read. */
int preload_value(char ret_value[PRELOAD_MAX], struct kiln_error *err);
