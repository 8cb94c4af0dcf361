/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a worker's process prints on standard error.
 *
 * Role       its standard error is a pipe of ours: our own may be a terminal, a file or the
 *            journal, which what a stranger's source took over may neither read nor write to.  Each
 *            line is a record worker_said, cut where it is long, and written as often as records of
 *            that kind may be.  Of many short lines that come at once most are only counted
 * Ownership  embedded in its owner, which may be freed once all its handles have closed
 * Threading  the loop's thread
 */
#include "daemon/loop/timer.h"
#include "daemon/loop/watch.h"

#define WORDS_LINE_MAX 400

struct process_words {
    struct loop_watch watch;
    struct loop_timer rest; /* between two looks: it does not keep us busy, however much it says */
    const char *who;        /* borrowed: the program's name */
    int fd;                 /* owned while |watch| is open */
    bool is_cut;            /* the rest of this line is left out */
    size_t used;
    char line[WORDS_LINE_MAX + 1];
};

/* |ret_fd| is for the process, and the caller's to close.  On failure nothing is open. */
KILN_MUST_CHECK enum kiln_code process_words_open(struct loop *loop, struct process_words *words,
                                                  struct loop_owner *owner, const char *who,
                                                  int *ret_fd, struct kiln_err *err);
/* What is there is still told.  Accepts a zeroed one. */
void process_words_close(struct process_words *words);
