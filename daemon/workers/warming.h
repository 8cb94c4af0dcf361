/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Which compiler processes warm up, and for how long jobs wait for them (warmup.h).
 *
 * Role       chooses the process that loads next what clients' sources need; retires warm processes
 *            that are no longer needed; decides whether a job is better off waiting for a warm-up
 *            than starting in another process
 * Ownership  borrows the pool's list of processes; embed it
 * Threading  the loop's thread
 */
#include "daemon/workers/pool.h"

struct warming {
    const struct list *workers; /* of struct worker; borrowed */
    struct warmup_need need;
    uint64_t grace_ns; /* the longest wait of a source for a warm-up */
    unsigned jobs_max; /* that one process may run in its life */
};

void warming_init(struct warming *warming, const struct list *workers,
                  const struct pool_options *options);

bool worker_is_warming_up(const struct worker *worker);

/* A worker has started |job|. Retires idle workers whose libraries were upgraded since. True: a
 * client's source, so call warming_retire_surplus one window later. */
bool warming_note(struct warming *warming, const struct compile_job *job);
uint64_t warming_window_ms(const struct warming *warming);
/* Retires warm workers beyond the recent number of concurrent sources. True: call it again one
 * window later. */
bool warming_retire_surplus(struct warming *warming);

/* The next worker to load what clients' sources need; NULL if no
 * worker can or should load it now. */
struct worker *warming_next(struct warming *warming);
/* Starts its warm-up. Fails like worker_run_job. */
KILN_MUST_CHECK enum kiln_code warming_start(struct warming *warming, struct worker *worker,
                                             struct kiln_err *err);
/* Call it when the worker's warm-up has a result. */
void warming_ended(struct warming *warming, struct worker *worker);

/* True if a worker that is warming up for this job is ready sooner than a fresh one. Other jobs
 * wait for |claimed| of these workers. */
bool warming_is_worth_waiting(const struct warming *warming, const struct compile_job *job,
                              unsigned claimed);
/* When the first warm-up that jobs wait for will have taken too long. */
uint64_t warming_grace_ms(const struct warming *warming);
