/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process of a worker: a child of kilnd, or a process that a unit of the service manager starts
 * for kilnd (kiln-launch).  The unit then names its user, control group and rights.
 *
 * Ownership  embedded in its owner, which may be freed once all its handles have closed
 * Threading  the loop's thread; |exited| never comes from within a call
 */
#include "daemon/loop/process.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"
#include "daemon/workers/process_stderr.h"

/* Takes the place of an exit status if the service manager did not start the process, or ended its
 * unit. */
#define WORKER_PROCESS_LOST (-1)

struct worker_process {
    struct loop_process child;
    struct process_stderr output; /* only of a child; the unit decides where its process prints */
    struct loop_watch watch;      /* of |control| */
    struct loop_timer lost;       /* time-out of a kill without an answer */
    bool launched;                /* by kiln-launch, not as a child */
    uint64_t lost_ms;
    int control; /* owned, if launched */
    uid_t uid;   /* the user that a launched process reported to run as; else -1 */
    /* Called once, after the process ended.  The caller must still close the handles. */
    void (*exited)(struct worker_process *process, int status, int signal);
};

struct worker_spawn {
    const char *program; /* of a child; for other processes the unit names the program */
    const char *service; /* path of the unit's socket; "": there is none */
    /* NULL-terminated, with the program's name first, which outlives the process. */
    const char *const *arguments;
    int fd_3;         /* borrowed: becomes the process's descriptor 3 */
    int directory;    /* borrowed: working directory of a launched process; -1: its own */
    uint64_t lost_ms; /* how long to wait for a killed launched process; 0: the default */
};

/* On failure the opened handles close themselves, and |exited| is not called. */
KILN_MUST_CHECK enum kiln_code worker_process_start(struct loop *loop,
                                                    struct worker_process *process,
                                                    struct loop_owner *owner,
                                                    const struct worker_spawn *spawn,
                                                    struct kiln_err *err);
/* Sends SIGKILL to the process and its process group. */
void worker_process_kill(struct worker_process *process);
/* Accepts a zeroed one.  Kills a launched process, but not a child. */
void worker_process_close(struct worker_process *process);
