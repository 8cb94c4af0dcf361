/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Chooses the compiler process for a job.
 *
 * Role       any idle process may run the job, because none has seen a client's source.  The
 *            libraries that a process has loaded decide which process is best
 * Ownership  borrows
 * Threading  the loop's thread
 */
#include "daemon/workers/worker.h"

enum loaded {               /* from worst to best for a job */
              LOADED_STALE, /* an older version of its compiler, since upgraded */
              LOADED_OTHER, /* another compiler */
              LOADED_NOTHING,
              LOADED_IT,
};

bool worker_is_idle(const struct worker *worker);
/* Compares the libraries that the worker has loaded with |toolchain|; an |id| of zeros matches
 * any. */
enum loaded worker_loaded(const struct worker *worker, struct bytes toolchain,
                          const struct digest *id);
/* Prefers an idle worker with the job's toolchain loaded, then one with nothing loaded, then any
 * other.  NULL when no worker is idle. */
struct worker *worker_choose(const struct list *workers, const struct compile_task *task);
