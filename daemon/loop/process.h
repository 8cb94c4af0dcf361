/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Child processes; spawn.h says which state they start in.
 *
 * Role       starts and reaps them, without a handler for SIGCHLD.  No other code in this process
 *            may reap them, and SIGCHLD must not be ignored
 * Ownership  embed it; loop_process_close
 * Threading  the loop's thread
 */
#include "daemon/loop/spawn.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#include <sys/types.h>

struct loop_process {
    struct loop_watch watch; /* of |pid_fd| */
    struct loop_timer poll;  /* polls for the end if there is no |pid_fd| */
    int pid_fd;              /* owned while |watch| is open */
    pid_t pid;               /* also its process group; 0 if it never started or was reaped here */
    /* Called once, after the process was reaped and its group killed.  The caller must still close
     * the handles. */
    void (*exited)(struct loop_process *process, int status, int signal);
};

/* Returns once the program runs or could not be run.  On failure nothing is open and |exited| is
 * not called. */
KILN_MUST_CHECK enum kiln_code loop_process_start(struct loop *loop, struct loop_process *process,
                                                  struct loop_owner *owner,
                                                  const struct loop_spawn *spawn,
                                                  struct kiln_err *err);
/* Sends SIGKILL to the process group.  Does nothing once the process was reaped. */
void loop_process_kill(const struct loop_process *process);
/* Accepts a zeroed process.  The process itself is not touched. */
void loop_process_close(struct loop_process *process);
