/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Child processes.  spawn.h documents the state in which they start.
 *
 * Role       reaps child processes; needs no handler for SIGCHLD.  No other code in this process
 *            may reap them, and SIGCHLD must not be ignored
 * Ownership  the caller embeds the struct; end with loop_process_close
 * Threading  the loop's thread
 */
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#include <sys/types.h>

struct loop_process {
    struct loop_watch watch;
    struct loop_timer poll;
    int pid_fd; /* owned while |watch| is open */
    /* The process, and the number of its process group.  0: the process was never started, or is
     * already reaped. */
    pid_t pid;
    /* Called once.  The caller must still close the handles. */
    void (*exited)(struct loop_process *process, int status, int signal);
};

/* Watches the process |pid|, which may have ended already. */
void loop_process_watch(struct loop *loop, struct loop_process *process, struct loop_owner *owner,
                        pid_t pid);
/* Does nothing once the process was reaped. */
void loop_process_kill(const struct loop_process *process);
/* Stops watching the process.  The process itself continues.  Accepts a zeroed struct. */
void loop_process_close(struct loop_process *process);
