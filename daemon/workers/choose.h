/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which compiler process gets a job.
 *
 * Role       any that is idle may: none of those had a client's source.  Libraries that are loaded
 *            already say which is best
 * Ownership  borrows
 * Threading  the loop's thread
 */
#include "daemon/workers/worker.h"

bool worker_is_idle(const struct worker *worker);
/* The one of |workers| that has the libraries of the job's toolchain loaded, else one with none,
 * else another; NULL when none is idle. */
struct worker *worker_choose(struct worker *workers, const struct compile_task *task);
