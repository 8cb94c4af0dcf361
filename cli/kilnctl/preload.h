/* SPDX-License-Identifier: MIT */
#pragma once

/* Computes the value of LD_PRELOAD with which kilnd answers the run-time compiles of a program.
 *
 * Threading  main thread */
#include <kiln/error.h>

#include <limits.h>

enum { PRELOAD_MAX = 2 * PATH_MAX };

/* Writes the path of libkiln-rtc, followed by the present value of LD_PRELOAD. If that value starts
 * with the path, writes it unchanged. Fails if the library cannot be read. */
int preload_value(char ret_value[PRELOAD_MAX], struct kiln_error *err);
