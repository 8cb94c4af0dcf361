/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cases of an engine operation. A separate process runs the operation in a copy of a directory.
 *
 * Role       runs a case.  |prepare| makes a directory once.  For each place, a process that obeys
 *            the plan runs |act| in a copy of the directory, and then a process without faults runs
 *            |check| on the copy
 * Ownership  directories are removed by trial_run
 * Threading  one thread
 */
#include "common/base/err.h"
#include "tests/faults/cases.h"

struct trial {
    char directory[96];
    struct fault_plan *plan; /* shared with the process that acts */
    struct trial_end *end;   /* also shared with the process that acts */
    /* whether the plan, or GMP without memory, ended the process; |end| says what was done until
     * then */
    bool killed;
    bool injected;
    unsigned version; /* 2 or more; each place gets a new version */
};

struct trial_end {
    bool over;         /* whether the operation returned */
    bool goes_on;      /* whether a later change succeeded after the operation */
    unsigned done;     /* number of steps that succeeded and were acknowledged */
    enum kiln_code rc; /* code of the step that failed */
    char text[512];
};

struct trial_steps { /* the functions of an operation */
    void (*prepare)(const char *directory);
    /* Must close everything that it opens. */
    void (*act)(struct trial *t);
    /* Fails an assertion if the result is wrong. */
    void (*check)(const struct trial *t);
};

/* Mark the beginning and the end of the part into which faults are injected. */
void trial_mark(struct trial *t);
void trial_over(struct trial *t);
/* Records the result of a step. Returns true if it succeeded. A failure must have a message. */
bool trial_step(struct trial *t, enum kiln_code rc, const struct kiln_err *err);

/* Implements |run| of struct operation. */
void trial_run(const struct fault_case *c);
