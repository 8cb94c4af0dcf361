/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The pool of kiln-compiler processes.
 *
 * Role       keeps |workers| of them running, ahead of any work; gives each job to the best free
 *            one, and no other after a client's job; has some load beforehand what the next
 *            source needs (warmup.h), and ends those that have loaded what is of no use any
 *            more; restarts those that go, with growing pauses when they die before they are ready
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
    struct worker_user user; /* whom workers become, or whom the unit names */
    unsigned workers;        /* at least 1 */
    bool require_sandbox;    /* the setting sandbox */
    struct process_limits
        limits;                /* limits.jobs: a worker is replaced after so many of kiln's own */
    uint64_t timeout_ms;       /* wall clock of one job */
    uint64_t start_timeout_ms; /* 0: the default */
    uint64_t grace_ms;         /* so long at most a source waits for a preparation; likewise */
    uint64_t window_ms;        /* so long how many sources came at once counts; likewise */
};

struct pool_counts {
    unsigned total, busy, starting, idle; /* now; total is what was asked for, starting with those
                                             that prepare */
    uint64_t worker_starts;   /* processes that there were, also those that were never ready */
    uint64_t worker_crashes;  /* jobs for a kernel that ended with their worker */
    uint64_t worker_timeouts; /* jobs for a kernel that took too long */
    uint64_t probe_crashes;   /* either, for a probe or a description; not for a preparation */
};

struct pool_confinement { /* what keeps compilers from what is none of theirs */
    struct worker_user user;
    bool required;                 /* one that lacks a layer is not used */
    bool known;                    /* a worker has said: */
    struct sandbox_report sandbox; /* of all that live: what every one of them has */
};

/* Starts nothing yet: the first worker comes with the next turn of the loop. */
KILN_MUST_CHECK enum kiln_code pool_create(const struct pool_options *options,
                                           struct pool **ret_pool, struct kiln_err *err);
/* Waits in order behind others.  When no worker can be started the outcome is
 * COMPILE_UNAVAILABLE, saying why. */
void pool_compile(struct pool *pool, struct compile_task *task);
/* The wall clock of one job, for those that begin from now on. */
void pool_set_timeout(struct pool *pool, uint64_t timeout_ms);
struct pool_counts pool_counts(const struct pool *pool);
struct pool_confinement pool_confinement(const struct pool *pool);
/* Tasks that were handed in and have not ended. */
unsigned pool_out(const struct pool *pool);
/* Kills every worker; what they had in hand, what waits and what comes later ends as
 * COMPILE_UNAVAILABLE. */
void pool_stop(struct pool *pool);
/* Stops it; |closed| is called, never from within, once all is gone and the pool is freed.  No task
 * may be handed in any more. */
void pool_close(struct pool *pool, void (*closed)(void *context), void *context);
