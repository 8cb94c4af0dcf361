/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The pool of kiln-compiler processes.
 *
 * Role       keeps |workers| processes running before there is work.  Gives each job to the best
 *            free process, and gives a process no job after a client's.  Has some processes load
 *            the libraries that the next source needs (warmup.h), and ends those whose loaded
 *            libraries are useless.  Restarts processes that end, with growing pauses if they die
 *            before they are ready
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
    const char *service;     /* of the unit that starts it; NULL, "": there is none; copied */
    const char *temp_base;   /* directory for temporary files of children; made if absent */
    struct worker_user user; /* the user that workers run as, set by themselves or by the unit */
    unsigned workers;        /* at least 1 */
    bool require_sandbox;    /* the setting sandbox */
    struct process_limits
        limits;                /* limits.jobs: replace a worker after so many of kiln's own jobs */
    uint64_t timeout_ms;       /* wall clock of one job */
    uint64_t start_timeout_ms; /* 0: the default */
    uint64_t grace_ms;         /* longest wait of a source for a warm-up; 0: the default */
    uint64_t window_ms;        /* how long the number of concurrent sources counts; likewise */
};

struct pool_counts {
    unsigned total, busy, starting, idle; /* now; |total| as configured, |starting| with warm-ups */
    uint64_t worker_starts;   /* all processes ever started, also those that were never ready */
    uint64_t worker_crashes;  /* jobs for a kernel that ended with their worker */
    uint64_t worker_timeouts; /* jobs for a kernel that took too long */
    uint64_t probe_crashes; /* crashes and time-outs of probes and descriptions; not of warm-ups */
};

struct pool_confinement { /* how compilers are confined */
    struct worker_user user;
    bool required;                 /* a process that lacks a layer is not used */
    bool known;                    /* a worker has reported its layers */
    struct sandbox_report sandbox; /* the sandbox layers that every running worker has */
};

/* Starts nothing yet: the first worker starts in the next loop iteration. */
KILN_MUST_CHECK enum kiln_code pool_create(const struct pool_options *options,
                                           struct pool **ret_pool, struct kiln_err *err);
/* Queues the job in order.  When no worker can be started, the result is COMPILE_UNAVAILABLE
 * with the reason. */
void pool_compile(struct pool *pool, struct compile_task *task);
/* Kills the worker that runs the job, or takes the job from the queue. The job ends as
 * COMPILE_UNAVAILABLE unless it had ended. */
void pool_stop_compile(struct pool *pool, struct compile_task *task);
/* Sets the wall-clock limit of jobs that start from now on. */
void pool_set_timeout(struct pool *pool, uint64_t timeout_ms);
struct pool_counts pool_counts(const struct pool *pool);
struct pool_confinement pool_confinement(const struct pool *pool);
/* Counts the tasks that were handed in and have not ended. */
unsigned pool_out(const struct pool *pool);
/* Kills every worker.  Running, waiting and later jobs end as COMPILE_UNAVAILABLE. */
void pool_stop(struct pool *pool);
/* Stops the pool.  |closed| is called, never from within, once all workers are gone and the pool
 * is freed.  No more tasks may be handed in. */
void pool_close(struct pool *pool, void (*closed)(void *context), void *context);
