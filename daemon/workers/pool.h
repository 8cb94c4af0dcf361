/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The pool of kiln-compiler processes.
 *
 * Role       keeps |workers| processes running before there is work.  Gives each job to the best
 *            free process.  A process gets no further job after a client's job.  Has some processes
 *            load the libraries that the next source needs (warmup.h), and ends processes that have
 *            loaded the wrong libraries.  Restarts processes that end, with growing pauses if they
 *            die before they are ready
 * Ownership  owns the workers; borrows tasks until their done callback
 * Threading  the loop's thread; done callbacks never run from within pool_compile
 */
#include "daemon/workers/worker.h"
#include "engine/sandbox/namespaces.h"

struct pool;

struct pool_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* path of kiln-compiler; copied */
    /* Copied; the name of the unit that starts workers.  NULL or "" if there is none. */
    const char *service;
    /* Directory for temporary files of workers; created if it does not exist. */
    const char *temp_base;
    struct worker_user user; /* the user that workers run as, set by themselves or by the unit */
    unsigned workers;        /* at least 1 */
    bool require_sandbox;    /* value of the setting sandbox */
    /* |limits.jobs| is how many of kiln's own jobs a worker runs before it is replaced. */
    struct process_limits limits;
    uint64_t timeout_ms;       /* maximum wall-clock time of one job */
    uint64_t start_timeout_ms; /* 0 means the default */
    uint64_t grace_ms;         /* how long a job may wait for a warm-up; 0 means the default */
    /* Time is divided into windows of this length; 0 means the default.  The number of workers that
     * the pool keeps warm is the largest number of clients' sources that were compiled at the same
     * time in this window or the previous one. */
    uint64_t window_ms;
};

struct pool_counts {
    /* Current numbers of workers.  |total| is the configured number; |starting| includes
     * warm-ups. */
    unsigned total, busy, starting, idle;
    /* Number of processes started, including those that were never ready. */
    uint64_t worker_starts;
    uint64_t worker_crashes;  /* number of compiles of a kernel during which the worker died */
    uint64_t worker_timeouts; /* number of compiles of a kernel that took too long */
    /* Number of crashes and time-outs of probes and descriptions, not of warm-ups. */
    uint64_t probe_crashes;
};

struct pool_confinement { /* how compilers are confined */
    struct worker_user user;
    bool required;                 /* a process that lacks a layer of the sandbox is not used */
    bool known;                    /* a worker has reported its sandbox layers */
    struct sandbox_report sandbox; /* the sandbox layers that every running worker has */
};

/* Creates the pool.  The first worker starts in the next loop iteration. */
KILN_MUST_CHECK enum kiln_code pool_create(const struct pool_options *options,
                                           struct pool **ret_pool, struct kiln_err *err);
/* Appends the job to the queue.  If no worker can be started, the result is COMPILE_UNAVAILABLE
 * with the reason. */
void pool_compile(struct pool *pool, struct compile_task *task);
/* Kills the worker that runs the job, or takes the job from the queue. The job ends as
 * COMPILE_UNAVAILABLE, unless it has ended already. */
void pool_stop_compile(struct pool *pool, struct compile_task *task);
/* Sets the wall-clock limit of jobs that start from now on. */
void pool_set_timeout(struct pool *pool, uint64_t timeout_ms);
struct pool_counts pool_counts(const struct pool *pool);
struct pool_confinement pool_confinement(const struct pool *pool);
/* Returns the number of tasks that were passed to pool_compile and have not ended. */
unsigned pool_out(const struct pool *pool);
/* Kills every worker.  Running, waiting and later jobs end as COMPILE_UNAVAILABLE. */
void pool_stop(struct pool *pool);
/* Stops the pool.  |closed| is called when all workers are gone and the pool is freed, but never
 * within this call.  The caller must not pass any more tasks. */
void pool_close(struct pool *pool, void (*closed)(void *context), void *context);
