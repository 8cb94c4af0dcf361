/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lines of libkiln on the job's standard error.
 *
 * Threading  any thread
 */
#include <stddef.h>

/* Never ends the job, even if nobody reads its standard error.  |line| ends with a line end. */
void notice_print(const char *line, size_t size);
