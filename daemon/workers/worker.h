/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-compiler process.
 *
 * Role       starts it with its limits and its user, gives it one job at a time, and enforces the
 *            time-out.  Every end of a job, even a crash, becomes a result
 * Ownership  frees itself after its |gone| event; borrows options and the current job
 * Threading  the loop's thread; an event never comes within a call on the same worker
 *
 * Socket protocol: engine/compile/worker_wire.h.  States:
 *
 *   STARTING --ready--> IDLE --job--> BUSY --result--> IDLE
 *                                     BUSY --last result--> LEAVING   it has run as many jobs as
 *                                                                     allowed
 *                                     BUSY --result--> KILLED         after a client's job
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
    void (*ready)(struct worker *worker, const struct sandbox_report *sandbox);
    /* The worker may take another job when it is IDLE; after a client's job it is never IDLE
     * again. */
    void (*finished)(struct worker *worker, struct compile_task *task);
    /* |err| says why.  If a job was running in the worker, |finished| is called afterwards. */
    void (*exited)(struct worker *worker, const struct kiln_err *err);
    void (*gone)(struct worker *worker);
};

struct worker_options {
    struct loop *loop;
    struct work_queues *work_queues; /* borrowed; removes temporary files */
    struct temp_root *temp;
    const char *program;
    /* Borrowed; path of the socket of the unit that starts the process; "": none. */
    const char *service;
    const char *outside;  /* borrowed; namespaces that the process must not be in */
    bool require_sandbox; /* a worker that lacks a layer of the sandbox is not used */
    /* The process sets these limits itself.  |limits.jobs| is the number of jobs after which the
     * process is replaced. */
    struct process_limits limits;
    uint64_t timeout_ms; /* the maximum wall-clock time of one job */
    uint64_t start_timeout_ms;
    struct worker_events events;
};

enum worker_blame {
    BLAME_NOTHING,
    BLAME_SLOW_START,
    BLAME_UNCONFINED,
    BLAME_DEADLINE,
    BLAME_CLOSED,
    BLAME_NONSENSE,
    BLAME_LINGERED,
    BLAME_RETIRED,
    BLAME_STOPPED,
    BLAME_YIELDED, /* killed because its job was stopped in favour of other jobs */
};

struct worker {
    const struct worker_options *options;
    void *context;
    struct loop_owner owner;
    struct worker_process process;
    struct loop_watch watch;
    struct loop_timer deadline;
    struct task removal;
    enum worker_state state;
    enum worker_blame blame;
    bool failed_to_start; /* worker_start returned an error, so there are no events */
    /* The process closed its end of the socket, so it gets no more jobs. */
    bool hung_up;
    int socket; /* owned; -1 when closed */
    unsigned jobs;
    /* The process got a client's source to compile, so this job is its last one. */
    bool is_spent;
    char toolchain[TOOLCHAIN_NAME_MAX]; /* the toolchain whose libraries are loaded */
    struct digest toolchain_id;         /* zeros if it is not known */
    struct compile_task *task;          /* borrowed; the current job */
    struct warmup warmup;
    struct worker_files files;     /* owned while there is a job */
    struct sandbox_report sandbox; /* filled in once the worker is ready */
    uint64_t started_ns;
    uint64_t time_ms;
    /* "" for a worker in a unit, which has its own temporary directory. */
    char temp[PATH_TEXT_MAX];
    struct list_link link;
};

/* Minimum time limit of jobs other than COMPILE_KERNEL. It applies even if the setting
 * compile_timeout is shorter, because loading a compiler takes seconds. */
#define WORKER_PROBE_MIN_MS 60000u

static inline uint64_t worker_time_ms(const struct worker_options *options, enum compile_kind kind)
{
    bool probes = kind != COMPILE_KERNEL && options->timeout_ms < WORKER_PROBE_MIN_MS;
    return probes ? WORKER_PROBE_MIN_MS : options->timeout_ms;
}

KILN_MUST_CHECK enum kiln_code worker_start(const struct worker_options *options, void *context,
                                            struct worker **ret_worker, struct kiln_err *err);
/* Gives an IDLE worker a job.  On failure, the caller keeps the job.  Returns KILN_UNAVAILABLE if
 * the process is gone or is being killed.  Any other failure has its cause in kilnd and leaves the
 * worker unchanged. */
KILN_MUST_CHECK enum kiln_code worker_run_job(struct worker *worker, struct compile_task *task,
                                              struct kiln_err *err);
/* The worker must be IDLE. */
void worker_retire(struct worker *worker);
/* Kills the process.  The current job ends as COMPILE_UNAVAILABLE. */
void worker_stop(struct worker *worker);
/* Kills a BUSY worker, whose job must give way to other jobs and ends as COMPILE_UNAVAILABLE. */
void worker_yield(struct worker *worker);
