/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Explains why a worker ended, and what that means for its job.
 *
 * Threading  the loop's thread
 */
#include "daemon/workers/worker.h"

/* |status| and |signal| as the process left them.  |text| is a complete message: it names the
 * program compiled, the target and toolchain, the limit and its setting. */
enum compile_end worker_end_of_job(const struct worker *worker, int status, int signal, char *text,
                                   size_t size);
/* For a worker without a job. */
void worker_end_text(const struct worker *worker, int status, int signal, struct kiln_err *ret_err);
