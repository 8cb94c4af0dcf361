/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Child processes.  spawn.h documents the state in which they start.
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
    struct loop_watch watch; /* watches |pid_fd| */
    struct loop_timer poll;  /* polls for the process's end if there is no |pid_fd| */
    int pid_fd;              /* owned while |watch| is open */
    /* Also the number of the process group. 0 if the process was never started or is already
     * reaped. */
    pid_t pid;
    /* Called once, after the process was reaped and its group was killed.  The caller must still
     * close the handles. */
    void (*exited)(struct loop_process *process, int status, int signal);
};

/* Starts a process.  Returns when the program runs or could not be started.  After a failure, no
 * handle is open, and |exited| is not called. */
KILN_MUST_CHECK enum kiln_code loop_process_start(struct loop *loop, struct loop_process *process,
                                                  struct loop_owner *owner,
                                                  const struct loop_spawn *spawn,
                                                  struct kiln_err *err);
/* Sends SIGKILL to the process group.  Does nothing once the process was reaped. */
void loop_process_kill(const struct loop_process *process);
/* Closes the handles; the process itself continues.  Accepts a zeroed struct. */
void loop_process_close(struct loop_process *process);
