/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Cases of an operation of the engine: done by a process of its own, in a copy of a directory.
 *
 * Role       prepare makes a directory once; for each place it is copied, a process that the plan
 *            strikes acts in the copy, and then another one, that nothing strikes, checks what is
 *            there
 * Ownership  directories are removed by trial_run
 * Threading  one thread
 */
#include "common/err.h"
#include "tests/faults/cases.h"

struct trial {
    char directory[96];
    struct fault_plan *plan; /* shared with the process that acts */
    struct trial_end *end;   /* the same */
    bool killed;             /* by the plan; then |end| tells what it had done until then */
    bool struck;
    unsigned version; /* another one each time, from 2 on */
};

struct trial_end {
    bool over;         /* it came to its end */
    bool goes_on;      /* and did something more afterwards */
    unsigned done;     /* how many of its steps succeeded, and were acknowledged */
    enum kiln_code rc; /* of the one that failed */
    char text[512];
};

struct trial_steps { /* the context of an operation */
    void (*prepare)(const char *directory);
    /* All that it opens it closes. */
    void (*act)(struct trial *t);
    /* Fails an assertion when something is not as it must be. */
    void (*check)(const struct trial *t);
};

/* From here on calls are counted; until trial_over. */
void trial_mark(struct trial *t);
void trial_over(struct trial *t);
/* Notes how a step ended; true when it succeeded.  A failure must come with a sentence. */
bool trial_step(struct trial *t, enum kiln_code rc, const struct kiln_err *err);

/* run of struct operation. */
void trial_run(const struct fault_case *c);
