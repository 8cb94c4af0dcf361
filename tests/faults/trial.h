/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs the fault cases of an engine operation. |prepare| makes a directory once. For each place, a
 * process into which faults are injected runs |act| in a copy of the directory. Then a process
 * without faults runs |check| on the copy. trial_run removes the directories. */
#include "common/base/err.h"
#include "tests/faults/cases.h"

struct trial {
    char directory[96];
    struct fault_plan *plan; /* shared with the process that acts */
    struct trial_end *end;   /* shared with the process that acts */
    /* The plan killed the process of |act|, or GMP aborted it because an allocation failed. |end|
     * then shows how far |act| had come. */
    bool killed;
    bool injected;
    unsigned version; /* 2 or more, and new for each place; |prepare| writes version 1 */
};

struct trial_end {
    bool over;
    bool goes_on;      /* whether a change after the tested one succeeded */
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

/* Mark the beginning and the end of the part of |act| into which faults are injected. */
void trial_mark(struct trial *t);
void trial_over(struct trial *t);
/* Records the result of a step of |act|. Returns true if it succeeded; a failure must have a
 * message. */
bool trial_step(struct trial *t, enum kiln_code rc, const struct kiln_err *err);

void trial_run(const struct fault_case *c);
