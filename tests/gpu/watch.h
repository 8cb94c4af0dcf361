/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The processes of gpu_trials: compilers, one runner, and the watching of them.
 *
 * Role       a kernel that takes its process down, or hangs, costs one trial
 * Ownership  every process that is started here is ended here
 * Threading  one thread, which must not have opened CUDA
 */
#include "tests/gpu/gpu_trial.h"

#include <stdio.h>

struct watch_options {
    struct run_options run;
    unsigned compilers;
    double seconds; /* begin nothing later; 0: no limit */
    bool quiet;     /* print no row of what is right */
    FILE *json;     /* borrowed, or NULL */
};

double watch_now(void); /* seconds */
/* Returns the exit status of the program: 0 when everything that ran was right, 1 when not, 2 when
 * nothing could be run. */
int watch_trials(struct trials *trials, const struct watch_options *options);
/* Only sees that all compiles; needs no GPU. */
int watch_compilers(struct trials *trials, const struct watch_options *options);
/* The target of the GPU here, found out in a process of its own. */
KILN_MUST_CHECK enum kiln_code watch_target(char ret_target[16], struct kiln_err *err);
