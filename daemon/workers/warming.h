/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Decides which compiler processes warm up (warmup.h), and for how long jobs wait for warm-ups.
 *
 * Role       chooses the next process that loads libraries, and retires those no longer needed
 * Ownership  borrows the pool's list of processes; the caller embeds the struct
 * Threading  the loop's thread
 */
#include "daemon/workers/pool.h"

struct warming {
    const struct list *workers;
    struct warmup_need need;
    uint64_t grace_ns; /* how long a source may wait for a warm-up */
    unsigned jobs_max;
};

void warming_init(struct warming *warming, const struct list *workers,
                  const struct pool_options *options);

bool worker_is_warming_up(const struct worker *worker);

/* Notes that a worker has started |job|, and retires idle workers whose libraries were upgraded
 * after they were loaded.  Returns true if |job| is a client's source; the caller then calls
 * warming_retire_surplus one window later. */
bool warming_note(struct warming *warming, const struct compile_job *job);
uint64_t warming_window_ms(const struct warming *warming);
/* Retires warm workers beyond the number of sources that were recently compiled at the same time.
 * If this function returns true, call it again one window (warmup.h) later. */
bool warming_retire_surplus(struct warming *warming);

/* Returns NULL if no worker can or should load libraries now. */
struct worker *warming_next(struct warming *warming);
KILN_MUST_CHECK enum kiln_code warming_start(struct warming *warming, struct worker *worker,
                                             struct kiln_err *err);
void warming_ended(struct warming *warming, struct worker *worker);

/* Returns true if a worker that is warming up for this job will be ready sooner than a new worker.
 * Other jobs already wait for |claimed| of these workers. */
bool warming_is_worth_waiting(const struct warming *warming, const struct compile_job *job,
                              unsigned claimed);
/* Returns how much longer jobs may wait for the oldest current warm-up. */
uint64_t warming_grace_ms(const struct warming *warming);
