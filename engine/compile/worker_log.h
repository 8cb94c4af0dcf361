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

/* Returns the text of the log, without its middle if it is longer than LIMIT_COMPILE_LOG. Returns
 * NULL if the log is empty or cannot be read, or if out of memory. */
char *worker_log_read(int log_fd);

/* Returns COMPILE_MEMORY or COMPILE_OUTPUT, with a message in |ret_text|, if the last lines of
 * |log| name that cause. Otherwise returns |end|. |log| may be NULL. */
enum compile_end worker_log_cause(const char *log, enum compile_end end, const char **ret_text);
