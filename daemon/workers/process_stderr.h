/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Logs what a worker process prints on standard error.
 *
 * Role       the process's standard error is a pipe that kilnd reads.  kilnd's own may be a
 *            terminal, a file or the journal, which a process taken over by hostile source must not
 *            reach.  Each line becomes a rate-limited record worker_output; long lines are cut.
 *            When many short lines come at once, most are only counted
 * Ownership  embedded in its owner, which may be freed once all its handles have closed
 * Threading  the loop's thread
 */
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#define STDERR_LINE_MAX 400

struct process_stderr {
    const char *program; /* borrowed: its name in the log; set by the caller */
    struct loop_watch watch;
    struct loop_timer pause; /* between two reads, so that a noisy process cannot keep kilnd busy */
    int fd;                  /* owned while |watch| is open */
    bool is_cut;             /* the rest of this line is left out */
    size_t used;
    char line[STDERR_LINE_MAX + 1];
};

/* Call on a zeroed struct with |program| set.  The process gets |ret_fd|, which the caller closes.
 * On failure nothing is open. */
KILN_MUST_CHECK enum kiln_code process_stderr_open(struct loop *loop, struct process_stderr *output,
                                                   struct loop_owner *owner, int *ret_fd,
                                                   struct kiln_err *err);
/* Logs what is left in the pipe.  Accepts a zeroed one. */
void process_stderr_close(struct process_stderr *output);
