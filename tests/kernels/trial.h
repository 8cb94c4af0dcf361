/* SPDX-License-Identifier: MIT */
#pragma once

/* A trial of a solution: fills operands, poisons the output and the workspace, runs the
 * solution, and compares the result with the reference. A trial owns its memory (trial_done). */
#include "cli/driver/reference.h"
#include "tests/kernels/opencl_device.h"
#include "tests/support/public_problem.h"

#define TENSORS 3 /* in the order KILN_TENSOR_X, _W, _Y */
/* Number of elements after each tensor, and of bytes after the workspace, that no kernel may
 * write. */
#define GUARD 64

enum trial_data {
    DATA_EXACT,   /* filled by storage_fill, so that a correct result is bitwise equal */
    DATA_GENERAL, /* any values, for which a correct result is within the rounding bound */
};

struct trial {
    struct kiln_problem problem;
    struct solution solution;
    /* Owned data, each followed by its guard. The first three are KILN_TENSOR_X, _W, _Y. */
    struct opencl_tensor tensors[OPENCL_MEMORIES];
    uint64_t elements[TENSORS];
    int output;
    double quantum;
};

struct trial_options {
    struct solver_choice choice; /* if empty, a heuristic chooses solver and config */
    enum trial_data data;
    uint64_t seed;
};

/* Solves |problem| and fills its tensors. Prints the reason and returns false if it fails. */
bool trial_init(struct trial *trial, const struct problem *problem, const struct target *target,
                const struct trial_options *options);
void trial_done(struct trial *trial);
/* Poisons output and workspace, then runs |kernels|. */
bool trial_run(struct trial *trial, struct opencl_device *device, struct opencl_kernels *kernels);
bool trial_build_and_run(struct trial *trial, struct opencl_device *device,
                         enum opencl_effort effort);
/* Returns true if every element is within its bound and no guard was overwritten. Otherwise
 * prints the problem and the reason. */
bool trial_is_right(struct trial *trial);
