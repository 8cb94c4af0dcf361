/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A compiler's log: reads it up to a limit, and searches it for the cause of a crash.
 *
 * Role       distinguishes a compiler that ran out of memory from one with a bug: both end with
 *            abort(), and only the last lines of their output differ
 * Ownership  the caller owns worker_log_read's result
 * Threading  no shared state
 */
#include "engine/compile/compile_job.h"

/* If the log is longer than LIMIT_COMPILE_LOG, its middle is left out.  Returns NULL if the log is
 * empty or cannot be read, or if out of memory. */
char *worker_log_read(int log_fd);

/* |log| may be NULL.  Returns COMPILE_MEMORY or COMPILE_OUTPUT, with a message in |ret_text|, if
 * the last lines name that cause; otherwise returns |end|. */
enum compile_end worker_log_cause(const char *log, enum compile_end end, const char **ret_text);
