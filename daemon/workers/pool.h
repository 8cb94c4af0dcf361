/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The pool of kiln-compiler processes.
 *
 * Role       keeps |workers| processes running before there is work.  Gives each job to the best
 *            free process.  A process that ran a client's job gets no other job.  Has some
 *            processes load the libraries that the next source needs (warmup.h).  Restarts
 *            processes that end, with growing pauses if they die before they are ready
 * Ownership  owns the workers; borrows tasks until their done callback
 * Threading  the loop's thread; done callbacks never run from within pool_compile
 */
#include "daemon/workers/worker.h"
#include "engine/sandbox/namespaces.h"

struct pool;

struct pool_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* copied */
    /* Path of the socket of the unit that starts workers; copied; NULL or "": none. */
    const char *service;
    const char *temp_base;
    struct worker_user user;
    unsigned workers; /* at least 1 */
    bool require_sandbox;
    /* |limits.jobs| is how many of kiln's own jobs a worker runs before it is replaced. */
    struct process_limits limits;
    uint64_t timeout_ms;       /* the maximum wall-clock time of one job */
    uint64_t start_timeout_ms; /* 0: the default */
    uint64_t grace_ms;         /* how long a job may wait for a warm-up; 0: the default */
    /* Length of a window; 0: the default.  The pool keeps N workers warm, where N is the largest
     * number of clients' sources that were compiled at the same time in this window or in the
     * previous one. */
    uint64_t window_ms;
};

struct pool_counts {
    /* |total| is the configured number; |starting| includes warm-ups. */
    unsigned total, busy, starting, idle;
    uint64_t worker_starts;
    uint64_t worker_crashes;  /* workers that died while they compiled a kernel */
    uint64_t worker_timeouts; /* compiles of kernels that took too long */
    /* Crashes and time-outs of probes and descriptions, not of warm-ups. */
    uint64_t probe_crashes;
};

struct pool_confinement {
    struct worker_user user;
    bool required;                 /* a process that lacks a layer of the sandbox is not used */
    bool known;                    /* a worker has reported its sandbox layers */
    struct sandbox_report sandbox; /* the layers of every running worker */
};

/* Creates the pool.  The first worker starts in the next loop iteration. */
KILN_MUST_CHECK enum kiln_code pool_create(const struct pool_options *options,
                                           struct pool **ret_pool, struct kiln_err *err);
/* Adds a task.  If no worker can be started, the result is COMPILE_UNAVAILABLE with the reason. */
void pool_compile(struct pool *pool, struct compile_task *task);
/* Stops the task's job, which then ends as COMPILE_UNAVAILABLE, unless it has ended already. */
void pool_stop_compile(struct pool *pool, struct compile_task *task);
void pool_set_timeout(struct pool *pool, uint64_t timeout_ms);
struct pool_counts pool_counts(const struct pool *pool);
struct pool_confinement pool_confinement(const struct pool *pool);
/* Counts tasks that have not ended. */
unsigned pool_out(const struct pool *pool);
/* Ends running and waiting jobs as COMPILE_UNAVAILABLE, and later jobs, too. */
void pool_stop(struct pool *pool);
/* |closed| is called when all workers are gone and the pool is freed, but never within this call.
 * The caller must not pass any more tasks. */
void pool_close(struct pool *pool, void (*closed)(void *context), void *context);
