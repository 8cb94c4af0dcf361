/* SPDX-License-Identifier: MIT */
#pragma once

/* Starts the processes of gpu_trials, and watches them: several that compile, and one that runs the
 * trials.
 *
 * Role       a kernel that hangs or crashes its process only spoils its own trial
 * Ownership  all processes that are started here are also ended here
 * Threading  one thread, which must not have opened CUDA */
#include "tests/gpu/gpu_trial.h"

#include <stdio.h>

struct watch_options {
    struct run_options run;
    unsigned compilers;
    double seconds; /* time limit for the whole run; no trial begins later; 0 means no limit */
    bool quiet;
    FILE *json;
};

double watch_now(void);
/* Returns the program's exit status: 0 if all trials that ran were correct, 1 if not, 2 if none
 * could run. */
int watch_trials(struct trials *trials, const struct watch_options *options);
/* Like watch_trials, but only compiles the programs and needs no GPU. Returns 1 if a program does
 * not compile. */
int watch_compilers(struct trials *trials, const struct watch_options *options);
/* Returns the GPU's target, with its number of multiprocessors. Queries the GPU in a child process,
 * because this process must not open CUDA. */
KILN_MUST_CHECK enum kiln_code watch_target(struct target *ret_target, struct kiln_err *err);
