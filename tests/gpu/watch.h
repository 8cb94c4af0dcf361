/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Starts the processes of gpu_trials (those that compile and the one that runs trials), and watches
 * them.
 *
 * Role       makes sure that a kernel that hangs or crashes its process only spoils its own trial
 * Ownership  every process that is started here is ended here
 * Threading  one thread, which must not have opened CUDA
 */
#include "tests/gpu/gpu_trial.h"

#include <stdio.h>

struct watch_options {
    struct run_options run;
    unsigned compilers;
    double seconds; /* no trial begins after this time; 0 means no limit */
    bool quiet;
    FILE *json;
};

double watch_now(void);
/* Returns the exit status of the program: 0 if every trial that ran was correct, 1 if not, 2 if
 * none could run. */
int watch_trials(struct trials *trials, const struct watch_options *options);
/* Like watch_trials, but only checks that all programs compile. Needs no GPU. */
int watch_compilers(struct trials *trials, const struct watch_options *options);
/* Returns the GPU's target, including the number of multiprocessors. A child process queries the
 * GPU, so that this process need not open CUDA. */
KILN_MUST_CHECK enum kiln_code watch_target(struct target *ret_target, struct kiln_err *err);
