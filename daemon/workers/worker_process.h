/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process of a worker: a child of kilnd, or a process that a unit of the service manager starts
 * for kilnd (kiln-launch).  In the second case, the unit determines user, control group and rights.
 *
 * Ownership  embedded in its owner, which may be freed once all its handles have closed
 * Threading  the loop's thread; |exited| is never called within another call
 */
#include "daemon/loop/process.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"
#include "daemon/loop/work_queues.h"
#include "daemon/workers/process_stderr.h"

/* Passed to |exited| as |status| if the service manager did not start the process, or ended its
 * unit. */
#define WORKER_PROCESS_LOST (-1)
/* Passed to |exited| as |status| if the program could not be run; |start_errnum| is the reason. */
#define WORKER_PROCESS_NOT_STARTED (-2)

struct worker_process {
    struct loop_process child;
    bool is_starting; /* another thread has not yet finished starting the child */
    bool is_killed;   /* worker_process_kill was called, perhaps before the child was started */
    int start_errnum;
    /* Only for a child; for a launched process, the unit decides where its output goes. */
    struct process_stderr output;
    struct loop_watch watch;
    struct loop_timer lost; /* fires if no report comes after a kill */
    bool launched;          /* started by kiln-launch, so not a child */
    uint64_t lost_ms;
    int control; /* owned; only open if |launched| */
    uid_t uid;   /* the user of a launched process, from its report; else -1 */
    /* Called once, after the process has ended.  The caller must still close the handles. */
    void (*exited)(struct worker_process *process, int status, int signal);
};

struct worker_spawn {
    /* One of their threads starts a child, because starting may block.  Borrowed until the process
     * ends. */
    struct work_queues *work_queues;
    uid_t uid;           /* the user who is charged for the start of a child */
    const char *program; /* only for a child */
    const char *service; /* path of the socket of the unit that starts the process; "": none */
    /* NULL-terminated, at most LAUNCH_ARGUMENTS_MAX; the program's name comes first, and must
     * outlive the process. */
    const char *const *arguments;
    int fd_3;      /* borrowed; becomes the process's descriptor 3 */
    int directory; /* borrowed; working directory of a launched process; -1: the unit's directory */
    uint64_t lost_ms; /* how long to wait for a launched process after a kill; 0: the default */
};

/* Returns before a child is started, because another thread starts it.  After a failure, the
 * handles that were opened close themselves, and |exited| is not called. */
KILN_MUST_CHECK enum kiln_code worker_process_start(struct loop *loop,
                                                    struct worker_process *process,
                                                    struct loop_owner *owner,
                                                    const struct worker_spawn *spawn,
                                                    struct kiln_err *err);
/* Kills the process and its process group. */
void worker_process_kill(struct worker_process *process);
/* Closes the handles.  Kills a launched process, but not a child.  Do not call it while the child
 * |is_starting|.  Accepts a zeroed struct. */
void worker_process_close(struct worker_process *process);
