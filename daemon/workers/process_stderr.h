/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Logs what a worker process prints on standard error.
 *
 * Role       the process's standard error is a pipe that kilnd reads.  The process does not get
 *            kilnd's own standard error, which may be a terminal, a file or the journal, because a
 *            hostile source may have taken control of the process.  Each line becomes a log record
 *            worker_output, which is rate-limited; long lines are cut.  When many short lines come
 *            at once, most are only counted
 * Ownership  embedded in its owner, which may be freed once all its handles have closed
 * Threading  the loop's thread
 */
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#define STDERR_LINE_MAX 400

struct process_stderr {
    const char *program; /* borrowed; the process's name in the log; set by the caller */
    struct loop_watch watch;
    /* Pause between two reads, so that a process that prints a lot does not keep kilnd busy. */
    struct loop_timer pause;
    int fd;      /* owned while |watch| is open */
    bool is_cut; /* the rest of the current line is dropped */
    size_t used;
    char line[STDERR_LINE_MAX + 1];
};

/* Creates the pipe.  The struct must be zeroed, with |program| set.  |ret_fd| is the end for the
 * process; the caller passes it on and closes it.  After a failure, nothing is open. */
KILN_MUST_CHECK enum kiln_code process_stderr_open(struct loop *loop, struct process_stderr *output,
                                                   struct loop_owner *owner, int *ret_fd,
                                                   struct kiln_err *err);
/* Logs what is left in the pipe, and closes it.  Accepts a zeroed struct. */
void process_stderr_close(struct process_stderr *output);
