/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process of a worker: a child of kilnd, or one that a unit of the service manager starts for
 * kilnd (kiln-launch), as the user, in the control group and with the rights that the unit names.
 *
 * Ownership  embedded in its owner, which may be freed once all its handles have closed
 * Threading  the loop's thread; |exited| never comes from within a call
 */
#include "daemon/loop/process.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"
#include "daemon/workers/process_words.h"

/* In place of an exit status: the service manager did not start it, or ended its unit. */
#define WORKER_PROCESS_LOST (-1)

struct worker_process {
    struct loop_process child;
    struct process_words words; /* but of a unit's, which says where they go */
    struct loop_watch watch;    /* of |control| */
    struct loop_timer lost;     /* after a kill that nobody answers */
    bool launched;              /* by kiln-launch, not by us */
    uint64_t lost_ms;
    int control; /* owned, of one that is launched */
    uid_t uid;   /* whom one that is launched runs as, once it said so; else -1 */
    /* Once, when it is no more; what is open still has to be closed. */
    void (*exited)(struct worker_process *process, int status, int signal);
};

struct worker_spawn {
    const char *program; /* of a child; the unit names that of the others */
    const char *service; /* path of the unit's socket; "": there is none */
    /* NULL-terminated, with the program's name first, which outlives the process. */
    const char *const *arguments;
    int fd_3;         /* borrowed: becomes the process's descriptor 3 */
    int directory;    /* borrowed: where one that is launched starts; -1: its own */
    uint64_t lost_ms; /* from a kill to giving up one that is launched; 0: the default */
};

/* On failure nothing is open but what closes itself, and |exited| is not called. */
KILN_MUST_CHECK enum kiln_code worker_process_start(struct loop *loop,
                                                    struct worker_process *process,
                                                    struct loop_owner *owner,
                                                    const struct worker_spawn *spawn,
                                                    struct kiln_err *err);
/* SIGKILL, with all of its process group. */
void worker_process_kill(struct worker_process *process);
/* Accepts a zeroed one.  A child is not touched; one that is launched is killed. */
void worker_process_close(struct worker_process *process);
