/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lines of libkiln on the job's standard error.
 *
 * Threading  any thread
 */
#include <stddef.h>

/* Prints |line|, which includes its line end.  Does not end the job if nobody reads standard
 * error. */
void notice_print(const char *line, size_t size);
