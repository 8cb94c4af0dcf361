/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The processes of gpu_trials: starts the compilers and the runner, and watches them.
 *
 * Role       a kernel that hangs or crashes its process only spoils its own trial
 * Ownership  every process that is started here is ended here
 * Threading  one thread, which must not have opened CUDA
 */
#include "tests/gpu/gpu_trial.h"

#include <stdio.h>

struct watch_options {
    struct run_options run;
    unsigned compilers;
    double seconds; /* no trial begins later; 0: no limit */
    bool quiet;     /* print no rows of right trials */
    FILE *json;     /* borrowed, or NULL */
};

double watch_now(void); /* seconds */
/* Returns the exit status of the program: 0 if every trial that ran was right, 1 if not, 2 if none
 * could run. */
int watch_trials(struct trials *trials, const struct watch_options *options);
/* Only checks that all programs compile; needs no GPU. */
int watch_compilers(struct trials *trials, const struct watch_options *options);
/* The target of this machine's GPU, with its multiprocessors.  A child process queries it, so that
 * this one need not open CUDA. */
KILN_MUST_CHECK enum kiln_code watch_target(struct target *ret_target, struct kiln_err *err);
