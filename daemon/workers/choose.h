/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which compiler process gets a job.
 *
 * Role       a process serves the user whose job it got first, and nobody else after that: a source
 *            that takes it over finds nothing of others to read or to falsify.  kilnd's own jobs
 *            bind it to nobody, and go to none that is bound
 * Ownership  borrows
 * Threading  the loop's thread
 */
#include "daemon/workers/worker.h"

/* Not so for who cannot be told from others: two jobs of theirs are never in one process. */
bool worker_may_serve(const struct worker *worker, const struct compile_asker *asker);
/* The one of |workers| that is idle and may serve the job: best one that has its toolchain's
 * libraries loaded, then one with none; NULL when there is none. */
struct worker *worker_choose(struct worker *workers, const struct compile_task *task);
/* The one to do without where none may serve a job; NULL when none is idle. */
struct worker *worker_idle_longest(struct worker *workers);
