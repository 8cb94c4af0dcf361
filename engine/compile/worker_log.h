/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A compiler's log: reads it up to a limit, and searches it for the cause of a crash.
 *
 * Role       a compiler that runs out of memory aborts like one with a bug; only its last output
 *            tells the difference
 * Ownership  the caller owns worker_log_read's result
 * Threading  no shared state
 */
#include "engine/compile/compile_job.h"

/* The log as text; beyond LIMIT_COMPILE_LOG bytes its middle is cut out.  NULL when it is empty,
 * cannot be read, or memory is short. */
char *worker_log_read(int log_fd);

/* The cause of a compiler's death, from its |log| (may be NULL).  COMPILE_MEMORY or
 * COMPILE_OUTPUT, with a message in |ret_text|, if the last lines say so; otherwise |end|. */
enum compile_end worker_log_cause(const char *log, enum compile_end end, const char **ret_text);
