/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A compiler's log: read within its limit, and searched for why a compiler died.
 *
 * Role       a compiler that runs out of memory aborts like one that has a bug; what it printed
 *            before is the only difference
 * Ownership  worker_log_read's result is the caller's
 * Threading  no shared state
 */
#include "engine/compile/compile_job.h"

/* The log as text, at most LIMIT_COMPILE_LOG bytes: its middle is cut out.  NULL when it is
 * empty, cannot be read, or there is no memory for it. */
char *worker_log_read(int log_fd);

/* |log| (may be NULL) of a compiler that died: COMPILE_MEMORY or COMPILE_OUTPUT with its own
 * |ret_text| when the last lines say so, else |end|. */
enum compile_end worker_log_cause(const char *log, enum compile_end end, const char **ret_text);
