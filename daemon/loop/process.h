/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Child processes.  The child leads a session and process group of its own; its standard input
 * and output are /dev/null, its standard error is ours, its signals are at their defaults.
 */
#include "daemon/loop/loop.h"

#include <sys/types.h>

struct loop_process {
    struct loop_handle handle;
    pid_t pid; /* also its process group; 0 when it never started */
    /* Once, after the process was reaped; the handle still has to be closed. */
    void (*exited)(struct loop_process *process, int status, int signal);
};

struct loop_spawn {
    const char *program;
    const char *const *arguments; /* NULL-terminated, with the program's name first */
    int fd_3;                     /* borrowed: becomes the child's descriptor 3 */
};

/* Returns when the program runs or could not be run; then the handle closes itself and |exited|
 * is not called. */
KILN_MUST_CHECK enum kiln_code loop_process_start(struct loop *loop, struct loop_process *process,
                                                  struct loop_owner *owner,
                                                  const struct loop_spawn *spawn,
                                                  struct kiln_err *err);
/* SIGKILL to the whole process group. */
void loop_process_kill(const struct loop_process *process);
/* Accepts a zeroed process.  The process itself is not touched. */
void loop_process_close(struct loop_process *process);
