/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Child processes; spawn.h says what they begin with.
 *
 * The process that we are in may be anybody's: SIGCHLD is left alone, and whoever waits for all
 * children (waitpid(-1), SIGCHLD ignored) takes the status of ours but not the news of their end.
 */
#include "daemon/loop/spawn.h"
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#include <sys/types.h>

/* In place of an exit status: it ended, and somebody else in this process took the status. */
#define LOOP_PROCESS_UNKNOWN (-2)

struct loop_process {
    struct loop_watch watch; /* of |pid_fd| */
    struct loop_timer look;  /* in its place, where there is none */
    int pid_fd;              /* owned while |watch| is open */
    pid_t pid; /* also its process group; 0 when it never started, or was reaped by us */
    /* Once, after the process was reaped and, but for LOOP_PROCESS_UNKNOWN, its group killed; what
     * is open still has to be closed. */
    void (*exited)(struct loop_process *process, int status, int signal);
};

/* Returns when the program runs or could not be run; then nothing is open and |exited| is not
 * called. */
KILN_MUST_CHECK enum kiln_code loop_process_start(struct loop *loop, struct loop_process *process,
                                                  struct loop_owner *owner,
                                                  const struct loop_spawn *spawn,
                                                  struct kiln_err *err);
/* SIGKILL to the whole process group.  After LOOP_PROCESS_UNKNOWN it reaches whoever has its number
 * by then, for the sake of what it left behind; nobody once it was reaped by us. */
void loop_process_kill(const struct loop_process *process);
/* Accepts a zeroed process.  The process itself is not touched. */
void loop_process_close(struct loop_process *process);
