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

enum loaded {               /* the better for a job the later */
              LOADED_STALE, /* its compiler as it was before somebody upgraded it */
              LOADED_OTHER, /* another compiler */
              LOADED_NOTHING,
              LOADED_IT,
};

bool worker_is_idle(const struct worker *worker);
/* What the worker's last job had it load, seen from one for |toolchain|; an |id| of zeros: any. */
enum loaded worker_loaded(const struct worker *worker, struct bytes toolchain,
                          const struct digest *id);
/* The one of |workers| that has the libraries of the job's toolchain loaded, else one with none,
 * else another; NULL when none is idle. */
struct worker *worker_choose(struct worker *workers, const struct compile_task *task);
