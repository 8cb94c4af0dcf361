/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-compiler process.
 *
 * Role       starts it with its limits and its user, gives it one job at a time, and enforces the
 *            time-out.  Every end of a job, crashes included, becomes a result
 * Ownership  frees itself after its |gone| event; borrows options and the current job
 * Threading  the loop's thread; events never come from within a call on the same worker
 *
 * Socket protocol: engine/compile/worker_wire.h.  States:
 *
 *   STARTING --ready--> IDLE --job--> BUSY --result--> IDLE
 *                                     BUSY --last result--> LEAVING   its share of jobs is done
 *                                     BUSY --result--> KILLED         of a client's job
 *   STARTING | IDLE | BUSY | LEAVING --kill--> KILLED    time-out, invalid message, the pool stops;
 *                                                        IDLE: its loaded libraries are useless
 *   any --exit--> GONE
 */
#include "daemon/loop/work_queues.h"
#include "daemon/workers/temp_directory.h"
#include "daemon/workers/warmup.h"
#include "daemon/workers/worker_process.h"
#include "engine/compile/process_limits.h"
#include "engine/compile/worker_wire.h"

struct worker;

enum worker_state {
    WORKER_STARTING,
    WORKER_IDLE,
    WORKER_BUSY,
    WORKER_LEAVING,
    WORKER_KILLED,
    WORKER_GONE,
};

struct worker_events {
    /* |sandbox|: the layers that confine it. */
    void (*ready)(struct worker *worker, const struct sandbox_report *sandbox);
    /* The job's result is filled.  The worker may take another job when it is IDLE; after a
     * client's job it never is again. */
    void (*finished)(struct worker *worker, struct compile_task *task);
    /* The process ended; |err| says why.  Comes before |finished| of a job that was running in
     * it. */
    void (*exited)(struct worker *worker, const struct kiln_err *err);
    void (*gone)(struct worker *worker); /* freed after this */
};

struct worker_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed: removing temporary files may block */
    struct temp_root *temp;          /* borrowed */
    const char *program;             /* borrowed: path of kiln-compiler */
    const char *service;             /* borrowed: of the unit that starts it; "": there is none */
    const char *outside;             /* borrowed: namespaces that it must not be in */
    bool require_sandbox;            /* one that lacks a layer is not used */
    struct process_limits
        limits; /* the process sets them itself; limits.jobs: how many before it is replaced */
    uint64_t timeout_ms;       /* wall clock of one job */
    uint64_t start_timeout_ms; /* until it reports ready */
    struct worker_events events;
};

enum worker_blame { /* why kilnd killed it */
                    BLAME_NOTHING,
                    BLAME_SLOW_START,
                    BLAME_UNCONFINED,
                    BLAME_DEADLINE,
                    BLAME_CLOSED,
                    BLAME_NONSENSE,
                    BLAME_LINGERED,
                    BLAME_RETIRED,
                    BLAME_STOPPED,
                    BLAME_YIELDED, /* so that another job gets a compiler */
};

struct worker {
    const struct worker_options *options; /* borrowed */
    void *context;                        /* for the receiver of the events */
    struct loop_owner owner;
    struct worker_process process;
    struct loop_watch watch;
    struct loop_timer deadline;
    struct task removal; /* of the temporary directory */
    enum worker_state state;
    enum worker_blame blame;
    bool failed_to_start;               /* worker_start returned an error: no events */
    bool hung_up;                       /* its end of the socket is closed: no more jobs for it */
    int socket;                         /* owned; -1 when closed */
    unsigned jobs;                      /* given so far */
    bool is_spent;                      /* it has run a client's source, so this job is its last */
    char toolchain[TOOLCHAIN_NAME_MAX]; /* the last job's: its libraries are loaded */
    struct digest toolchain_id;         /* of that toolchain; zeros: not known */
    struct compile_task *task;          /* borrowed: the job in hand */
    struct warmup warmup;               /* filled by the pool */
    struct worker_files files;          /* owned while a job is in hand */
    struct sandbox_report sandbox;      /* filled once it is ready */
    uint64_t started_ns;                /* the job in hand */
    uint64_t time_ms;                   /* wall-clock limit of this job */
    char temp[PATH_TEXT_MAX];           /* "" if a unit runs the worker, as units have their own */
    struct list_link link;              /* its owner's list */
};

/* Loading a compiler takes seconds, even if the setting compile_timeout is shorter. */
#define WORKER_PROBE_MIN_MS 60000u

/* The wall-clock limit of one job; a probe or a description gets at least a minute. */
static inline uint64_t worker_time_ms(const struct worker_options *options, enum compile_kind kind)
{
    bool probes = kind != COMPILE_KERNEL && options->timeout_ms < WORKER_PROBE_MIN_MS;
    return probes ? WORKER_PROBE_MIN_MS : options->timeout_ms;
}

KILN_MUST_CHECK enum kiln_code worker_start(const struct worker_options *options, void *context,
                                            struct worker **ret_worker, struct kiln_err *err);
/* Call only when IDLE.  On failure the caller keeps the job.  KILN_UNAVAILABLE: the process is
 * gone or being killed.  Any other failure is kilnd's own and leaves the worker as it was. */
KILN_MUST_CHECK enum kiln_code worker_run_job(struct worker *worker, struct compile_task *task,
                                              struct kiln_err *err);
/* Kills an IDLE worker that is no longer useful. */
void worker_retire(struct worker *worker);
/* Kills the worker; its current job ends as COMPILE_UNAVAILABLE. */
void worker_stop(struct worker *worker);
/* Kills a BUSY worker in the same way, because its job must give way to others. */
void worker_yield(struct worker *worker);
