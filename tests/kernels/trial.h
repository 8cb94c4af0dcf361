/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs a solution and compares the result with the reference. A trial fills the operands, and
 * overwrites the output and the workspace with NaNs before the run. A trial owns its memory
 * (trial_done). */
#include "cli/driver/reference.h"
#include "tests/kernels/opencl_device.h"
#include "tests/support/public_problem.h"

#define TENSORS 3 /* in the order of KILN_TENSOR_X, KILN_TENSOR_W, KILN_TENSOR_Y */
/* Length of the guard that no kernel may overwrite: elements behind each tensor, bytes behind the
 * workspace. */
#define GUARD 64

enum trial_data {
    /* from storage_fill; sums of such values are exact, so the result must be bitwise equal */
    DATA_EXACT,
    DATA_GENERAL, /* any values; the result must be within the rounding bound */
};

struct trial {
    struct kiln_problem problem;
    struct solution solution;
    /* The device's memories, owned. Each is followed by its guard. The first TENSORS memories are
     * the operands and the output. */
    struct opencl_tensor tensors[OPENCL_MEMORIES];
    uint64_t elements[TENSORS];
    int output;
    double quantum;
};

struct trial_options {
    struct solver_choice choice; /* if empty, kiln chooses the solver and its config */
    enum trial_data data;
    uint64_t seed;
};

/* Solves |problem| and fills its tensors. On failure, prints the reason and returns false. */
bool trial_init(struct trial *trial, const struct problem *problem, const struct target *target,
                const struct trial_options *options);
void trial_done(struct trial *trial);
/* Overwrites the output and the workspace with NaNs, then runs |kernels|. */
bool trial_run(struct trial *trial, struct opencl_device *device, struct opencl_kernels *kernels);
bool trial_build_and_run(struct trial *trial, struct opencl_device *device,
                         enum opencl_effort effort);
/* Returns true if every element of the output is within its rounding bound and no guard was
 * overwritten. Otherwise, prints the problem and the reason. */
bool trial_is_right(struct trial *trial);
