/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-transfer process and its one job.
 *
 * Role       makes a private directory for it, starts it, hands over the job, passes its progress
 * on, watches the clock, and turns whatever it does, dying included, into an outcome with one file
 * or nothing left behind Ownership  frees itself after |gone|; borrows options, and the task until
 * |ended| Threading  the loop's thread; neither comes from within a call
 *
 *   PREPARING --directory made--> RUNNING --exit--> CLEARING --directory removed--> ended, gone
 *   PREPARING --stopped, or it cannot be started---^
 *   RUNNING --killed, and still there--> ended --exit, or abandoned--> CLEARING --> gone
 *
 * A process that waits for a filesystem which does not answer does not die of SIGKILL.  It is an
 * orphan then: nobody waits for it.
 */
#include "daemon/loop/work_queues.h"
#include "daemon/workers/worker_process.h"
#include "daemon/workers/worker_user.h"

#include <stdatomic.h>

#define TRANSFER_DIRECTORY_MAX 512

struct transfer_process;

struct transfer_process_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* borrowed */
    const char *service;             /* borrowed: of the unit that starts it; "": there is none */
    struct worker_user user; /* whom it becomes or the unit names, and whose its directory is */
    unsigned disk_part;      /* as in transfer_job */
    uint64_t timeout_ms;     /* wall clock of one transfer */
    uint64_t silence_ms;     /* without progress: killed */
    uint64_t exit_ms;        /* from its outcome to its end, and from SIGKILL to its end */
    /* The task's outcome is filled; an orphan is still there. */
    void (*ended)(struct transfer_process *process);
    /* Freed after this. */
    void (*gone)(struct transfer_process *process);
};

enum transfer_stop { /* why it is ended early */
                     STOP_NOT,
                     STOP_CANCELLED,
                     STOP_SHUTDOWN,
                     STOP_DEADLINE,
                     STOP_SILENCE,
                     STOP_NONSENSE,
};

struct transfer_process {
    const struct transfer_process_options *options; /* borrowed */
    void *context;                                  /* whoever listens to |ended| */
    struct transfer_task *task;                     /* borrowed; NULL once it ended */
    uid_t uid;                                      /* who asked */
    bool is_admin;
    struct task work; /* making and removing the directory */
    struct loop_owner owner;
    struct worker_process process;
    struct loop_watch watch;
    struct loop_timer deadline, silence, killed;
    int socket; /* owned; -1 */
    bool running, reported, is_orphan;
    enum transfer_stop stop;
    atomic_int unwanted;  /* why its file is not to be copied any more: a transfer_stop */
    struct kiln_err kept; /* of what it left: what could not be removed, and why */
    char directory[TRANSFER_DIRECTORY_MAX]; /* below the job's staging directory; "" when there is
                                               none */
    char stage[16];                         /* what it was at last */
    struct transfer_process *next;          /* its owner's list */
};

/* NULL when out of memory. */
struct transfer_process *transfer_process_start(const struct transfer_process_options *options,
                                                void *context, struct transfer_task *task);
/* Kills it; an outcome that it told before stays, unless its file has yet to be copied. */
void transfer_process_stop(struct transfer_process *process, enum transfer_stop why);
/* Of an orphan: lets go of it. */
void transfer_process_abandon(struct transfer_process *process);
