/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Chooses the compiler process for a job.
 *
 * Role       chooses by the libraries that processes have loaded
 * Ownership  borrows
 * Threading  the loop's thread
 */
#include "daemon/workers/worker.h"

enum loaded { /* what a worker has loaded, from worst to best for a job */
              /* The job's compiler, but a version from before its upgrade. */
              LOADED_STALE,
              LOADED_OTHER,
              LOADED_NOTHING,
              LOADED_IT,
};

bool worker_is_idle(const struct worker *worker);
/* Returns what |worker| has loaded, compared with |toolchain|.  An |id| of zeros matches any
 * version. */
enum loaded worker_loaded(const struct worker *worker, struct bytes toolchain,
                          const struct digest *id);
/* Prefers an idle worker with the job's toolchain loaded, then one with nothing loaded, then any
 * other.  Returns NULL if no worker is idle. */
struct worker *worker_choose(const struct list *workers, const struct compile_task *task);
