/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Logs what a worker process prints on standard error.
 *
 * Role       reads a pipe that is the process's standard error.  kilnd's own standard error may be
 *            a terminal, a file or the journal, and a hostile source may control the process.  Each
 *            line becomes a log record worker_output, which is rate-limited; long lines are cut
 * Ownership  embedded in its owner, which may be freed once all its handles have closed
 * Threading  the loop's thread
 */
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#define STDERR_LINE_MAX 400

struct process_stderr {
    const char *program; /* borrowed; set by the caller */
    struct loop_watch watch;
    /* Runs between two reads, so that a process that prints a lot does not keep kilnd busy. */
    struct loop_timer pause;
    int fd; /* owned */
    bool is_cut;
    size_t used;
    char line[STDERR_LINE_MAX + 1];
};

/* Creates the pipe and reads it.  |output| must be zeroed, with |program| set.  |ret_fd| is the
 * write end of the pipe; the caller passes it to the process, then closes it.  After a failure,
 * nothing is open. */
KILN_MUST_CHECK enum kiln_code process_stderr_open(struct loop *loop, struct process_stderr *output,
                                                   struct loop_owner *owner, int *ret_fd,
                                                   struct kiln_err *err);
/* Logs what is left in the pipe.  Accepts a zeroed struct. */
void process_stderr_close(struct process_stderr *output);
