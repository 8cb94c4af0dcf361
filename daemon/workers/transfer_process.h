/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-transfer process and its one job.
 *
 * Role       makes a private directory, starts the process, hands over the job, passes on its
 *            progress and enforces time-outs.  Turns every end, crashes included, into a result
 *            with one file, or with no file left behind
 * Ownership  frees itself after |gone|; borrows options, and the task until |ended|
 * Threading  the loop's thread; no callback runs from within a call
 *
 *   PREPARING --directory made--> RUNNING --exit--> CLEARING --directory removed--> ended, gone
 *   PREPARING --stopped, or it cannot be started---^
 *   RUNNING --killed, and still there--> ended --exit, or abandoned--> CLEARING --> gone
 *
 * A process that waits for a filesystem which does not answer does not die of SIGKILL.  It is then
 * detached: its task ends without waiting for it.
 */
#include "daemon/loop/work_queues.h"
#include "daemon/workers/take_file.h"
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
    struct worker_user user;         /* the user that it runs as, who also owns its directory */
    unsigned disk_part;              /* as in transfer_job */
    uint64_t timeout_ms;             /* wall clock of one transfer */
    uint64_t silence_ms;             /* after so much time without progress, it is killed */
    uint64_t exit_ms;                /* wait for its end, after its result and after SIGKILL */
    /* The task's result is filled; a detached process may still exist. */
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
    void *context;                                  /* for the receiver of |ended| */
    struct transfer_task *task;                     /* borrowed; NULL once it ended */
    uid_t uid;                                      /* the user who asked for the transfer */
    struct task work;                               /* making and removing the directory */
    struct loop_owner owner;
    struct worker_process process;
    struct loop_watch watch;
    struct loop_timer deadline, silence, killed;
    int socket; /* owned; -1 */
    bool running, reported, is_stuck;
    enum transfer_stop stop;
    atomic_int unwanted;   /* a transfer_stop: why the file must not be copied */
    struct file_take take; /* of the file, in steps */
    bool takes_more;       /* another step follows */
    struct kiln_err kept;  /* names a leftover that could not be removed, and why */
    char directory[TRANSFER_DIRECTORY_MAX]; /* below the job's staging directory; "" when there is
                                               none */
    char stage[16];                         /* its last reported stage */
    struct list_link link;                  /* its owner's list */
};

/* NULL when out of memory. */
struct transfer_process *transfer_process_start(const struct transfer_process_options *options,
                                                void *context, struct transfer_task *task);
/* Kills the process.  A result that it reported before stays valid unless its file is not copied
 * yet. */
void transfer_process_stop(struct transfer_process *process, enum transfer_stop why);
/* Closes kilnd's descriptors of a detached process without waiting for its end.  |gone| follows. */
void transfer_process_abandon(struct transfer_process *process);
