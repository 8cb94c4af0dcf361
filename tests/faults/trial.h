/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cases of an engine operation. A separate process runs the operation in a copy of a directory.
 *
 * Role       prepare makes a directory once. For each place, a process under the plan acts in a
 *            copy of it, and then another process without faults checks the copy
 * Ownership  directories are removed by trial_run
 * Threading  one thread
 */
#include "common/base/err.h"
#include "tests/faults/cases.h"

struct trial {
    char directory[96];
    struct fault_plan *plan; /* shared with the process that acts */
    struct trial_end *end;   /* shared likewise */
    bool killed;             /* killed by the plan; |end| has what was done until then */
    bool injected;
    unsigned version; /* from 2 on; each place gets a new one */
};

struct trial_end {
    bool over;         /* the operation returned */
    bool goes_on;      /* after the operation, a later change succeeded */
    unsigned done;     /* how many steps succeeded, and were acknowledged */
    enum kiln_code rc; /* the code of the step that failed */
    char text[512];
};

struct trial_steps { /* the context of an operation */
    void (*prepare)(const char *directory);
    /* Must close everything that it opens. */
    void (*act)(struct trial *t);
    /* Fails an assertion if the result is wrong. */
    void (*check)(const struct trial *t);
};

/* Faults are injected only between trial_mark and trial_over. */
void trial_mark(struct trial *t);
void trial_over(struct trial *t);
/* Records a step's result. True: it succeeded. A failure must have a message. */
bool trial_step(struct trial *t, enum kiln_code rc, const struct kiln_err *err);

/* The |run| of struct operation. */
void trial_run(const struct fault_case *c);
