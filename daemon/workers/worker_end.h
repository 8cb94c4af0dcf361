/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Explains why a worker ended, and what that means for its job.
 *
 * Threading  the loop's thread
 */
#include "daemon/workers/worker.h"

/* Returns how the job ended, given how the process ended (|status|, |signal|).  |text| receives a
 * complete message, which names the compiled program, the target, the toolchain, and the limit that
 * was exceeded. */
enum compile_end worker_end_of_job(const struct worker *worker, int status, int signal, char *text,
                                   size_t size);
void worker_end_text(const struct worker *worker, int status, int signal, struct kiln_err *ret_err);
