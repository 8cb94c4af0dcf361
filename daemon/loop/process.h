/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Child processes; spawn.h says which state they start in.
 *
 * Does not use SIGCHLD.  If other code in this process reaps all children (waitpid(-1), or SIGCHLD
 * ignored), the exit status is lost but the end of the process is still reported.
 */
#include "daemon/loop/spawn.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#include <sys/types.h>

/* In place of an exit status: the process ended, and other code in this process took its status. */
#define LOOP_PROCESS_UNKNOWN (-2)

struct loop_process {
    struct loop_watch watch; /* of |pid_fd| */
    struct loop_timer poll;  /* polls for the end if there is no |pid_fd| */
    int pid_fd;              /* owned while |watch| is open */
    pid_t pid;               /* also its process group; 0 if it never started or was reaped here */
    /* Called once, after the process was reaped and (except for LOOP_PROCESS_UNKNOWN) its group
     * killed.  The caller must still close the handles. */
    void (*exited)(struct loop_process *process, int status, int signal);
};

/* Returns once the program runs or could not be run.  On failure nothing is open and |exited| is
 * not called. */
KILN_MUST_CHECK enum kiln_code loop_process_start(struct loop *loop, struct loop_process *process,
                                                  struct loop_owner *owner,
                                                  const struct loop_spawn *spawn,
                                                  struct kiln_err *err);
/* Sends SIGKILL to the process group.  After LOOP_PROCESS_UNKNOWN the number may already belong
 * to another group; the signal is sent nevertheless, to end leftover children.  Does nothing
 * once the process was reaped here. */
void loop_process_kill(const struct loop_process *process);
/* Accepts a zeroed process.  The process itself is not touched. */
void loop_process_close(struct loop_process *process);
