/* SPDX-License-Identifier: MIT */
#pragma once

/* Cases of an engine operation. |prepare| makes a directory once. For each place, a process that
 * obeys the plan runs |act| in a copy of the directory. Then a process without faults runs
 * |check| on the copy. trial_run removes the directories. */
#include "common/base/err.h"
#include "tests/faults/cases.h"

struct trial {
    char directory[96];
    struct fault_plan *plan; /* shared with the process that acts */
    struct trial_end *end;   /* shared with the process that acts */
    /* whether the plan ended the process, or GMP did after a failed allocation; |end| has what was
     * done before */
    bool killed;
    bool injected;
    unsigned version; /* 2 or more; each place gets a new version */
};

struct trial_end {
    bool over;
    bool goes_on;      /* whether a later change succeeded */
    unsigned done;     /* number of acknowledged steps */
    enum kiln_code rc; /* code of the step that failed */
    char text[512];
};

struct trial_steps {
    void (*prepare)(const char *directory);
    /* Must close everything that it opens. */
    void (*act)(struct trial *t);
    void (*check)(const struct trial *t);
};

/* Mark the beginning and the end of the part into which faults are injected. */
void trial_mark(struct trial *t);
void trial_over(struct trial *t);
/* Returns true if the step succeeded. A failure must have a message. */
bool trial_step(struct trial *t, enum kiln_code rc, const struct kiln_err *err);

void trial_run(const struct fault_case *c);
