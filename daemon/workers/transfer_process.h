/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One kiln-transfer process and its one job.
 *
 * Role       makes a private folder for it, starts it, hands over the job, passes its progress on,
 *            watches the clock, and turns whatever it does, dying included, into an outcome with
 *            one file or nothing left behind
 * Ownership  frees itself after |ended|; borrows options and the task
 * Threading  the loop's thread; |ended| never comes from within a call
 *
 *   PREPARING --folder made--> RUNNING --exit--> CLEARING --folder removed--> ended
 *   PREPARING --stopped, or it cannot be started---^
 */
#include "daemon/loop/lanes.h"
#include "daemon/loop/process.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#define TRANSFER_FOLDER_MOST 512

struct transfer_process;

struct transfer_process_options {
    struct loop *loop;   /* borrowed */
    struct lanes *lanes; /* borrowed */
    const char *program; /* borrowed */
    uint64_t timeout_ms; /* wall clock of one transfer */
    /* The task's outcome is filled; the process is freed after this. */
    void (*ended)(struct transfer_process *process);
};

enum transfer_stop { /* why it is ended early */
                     STOP_NOT,
                     STOP_CANCELLED,
                     STOP_SHUTDOWN,
                     STOP_DEADLINE,
                     STOP_NONSENSE,
};

struct transfer_process {
    const struct transfer_process_options *options; /* borrowed */
    void *context;                                  /* whoever listens to |ended| */
    struct transfer_task *task;                     /* borrowed */
    struct task work;                               /* making and removing the folder */
    struct loop_owner owner;
    struct loop_process process;
    struct loop_watch watch;
    struct loop_timer deadline;
    int socket; /* owned; -1 */
    bool running, told;
    enum transfer_stop stop;
    char folder[TRANSFER_FOLDER_MOST]; /* below the job's staging folder; "" when there is none */
    char stage[16];                    /* what it was at last */
    struct transfer_process *next;     /* its owner's list */
};

/* NULL when out of memory. */
struct transfer_process *transfer_process_start(const struct transfer_process_options *options,
                                                void *context, struct transfer_task *task);
/* Too late once it told its outcome. */
void transfer_process_stop(struct transfer_process *process, enum transfer_stop why);
