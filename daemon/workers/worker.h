/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-compiler process.
 *
 * Role       starts it with its limits and its user, gives it one job at a time, watches the clock,
 *            and turns whatever it does, dying included, into an outcome
 * Ownership  frees itself after its |gone| event; borrows options and the job in hand
 * Threading  the loop's thread; events never come from within a call on the same worker
 *
 * States and moves: worker_state.h.  What passes over the socket: engine/compile/worker_wire.h.
 */
#include "daemon/loop/work_queues.h"
#include "daemon/workers/temp_directory.h"
#include "daemon/workers/warmup.h"
#include "daemon/workers/worker_process.h"
#include "daemon/workers/worker_state.h"
#include "engine/compile/process_limits.h"
#include "engine/compile/worker_wire.h"

struct worker;

struct worker_events {
    /* |sandbox|: what confines it. */
    void (*ready)(struct worker *worker, const struct sandbox_report *sandbox);
    /* The job's outcome is filled; the worker may take another when it is IDLE, which it never is
     * again after a job of a client's. */
    void (*finished)(struct worker *worker, struct compile_task *task);
    /* The process is no more; |err| says why.  Comes before |finished| of a job that died with it.
     */
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
    struct process_limits limits;    /* it sets them; limits.jobs: how many before it is replaced */
    uint64_t timeout_ms;             /* wall clock of one job */
    uint64_t start_timeout_ms;       /* until it says that it is ready */
    struct worker_events events;
};

enum worker_blame { /* why we killed it */
                    BLAME_NOTHING,
                    BLAME_SLOW_START,
                    BLAME_UNCONFINED,
                    BLAME_DEADLINE,
                    BLAME_CLOSED,
                    BLAME_NONSENSE,
                    BLAME_LINGERED,
                    BLAME_RETIRED,
                    BLAME_STOPPED,
};

struct worker {
    const struct worker_options *options; /* borrowed */
    void *context;                        /* whoever listens to the events */
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
    bool is_spent;                      /* it has, or had, a client's source: its last job */
    char toolchain[TOOLCHAIN_NAME_MAX]; /* the last job's: its libraries are loaded */
    struct digest toolchain_id;         /* likewise; zeros: not known */
    struct compile_task *task;          /* borrowed: the job in hand */
    struct warmup warmup;               /* its owner's */
    struct worker_files files;          /* owned while a job is in hand */
    struct sandbox_report sandbox;      /* once it said so */
    uint64_t started_ns;                /* the job in hand */
    uint64_t time_ms;                   /* that it may take */
    char temp[PATH_TEXT_MAX];           /* "": the unit has one */
    struct worker *next;                /* its owner's list */
};

/* Compilers take seconds to load, whatever one kernel is allowed. */
#define WORKER_PROBE_MIN_MS 60000u

/* The wall clock of one job; a probe or a description has a minute at least. */
static inline uint64_t worker_time_ms(const struct worker_options *options, enum compile_kind kind)
{
    bool probes = kind != COMPILE_KERNEL && options->timeout_ms < WORKER_PROBE_MIN_MS;
    return probes ? WORKER_PROBE_MIN_MS : options->timeout_ms;
}

KILN_MUST_CHECK enum kiln_code worker_start(const struct worker_options *options, void *context,
                                            struct worker **ret_worker, struct kiln_err *err);
/* Only when IDLE.  On failure the job is still the caller's.  KILN_UNAVAILABLE: the process is
 * gone, or is being killed; for all else the worker is as before: what failed is our own. */
KILN_MUST_CHECK enum kiln_code worker_give(struct worker *worker, struct compile_task *task,
                                           struct kiln_err *err);
/* Kills one that is IDLE and not to be used any more. */
void worker_retire(struct worker *worker);
/* Kills it; a job in hand ends as COMPILE_UNAVAILABLE. */
void worker_stop(struct worker *worker);
