/* SPDX-License-Identifier: MIT */
#pragma once

/* Why a worker ended, in words, and what that means for the job it had. */
#include "daemon/workers/worker.h"

/* |status| and |signal| as the process left them.  The sentence is complete: it names the program
 * compiled, the target and the toolchain, the limit and its setting. */
enum compile_end worker_end_of_job(const struct worker *worker, int status, int signal, char *text,
                                   size_t size);
/* For a worker without a job. */
void worker_end_text(const struct worker *worker, int status, int signal, struct kiln_err *ret_err);
