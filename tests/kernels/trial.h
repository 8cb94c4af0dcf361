/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One trial of a kernel: fresh operands, a poisoned output, a run, and the reference's verdict.
 *
 * Ownership  a trial owns its tensors (trial_done)
 * Threading  one thread
 */
#include "cli/driver/reference.h"
#include "tests/kernels/opencl_device.h"

#define TENSORS 3 /* KILN_TENSOR_X, _W, _Y */
/* Elements behind each tensor that no kernel may touch. */
#define GUARD 64

enum trial_data {
    DATA_EXACT,   /* storage_fill: a correct result is right to the last bit */
    DATA_GENERAL, /* any values: a correct result lies within the rounding bound */
};

struct trial {
    struct kiln_problem problem;
    struct solution solution;
    struct opencl_tensor tensors[TENSORS]; /* owned data, with GUARD elements behind */
    uint64_t elements[TENSORS];
    int output; /* KILN_TENSOR_* */
    double quantum;
};

struct kiln_problem problem_for_reference(const struct problem *problem);

/* Solves and fills; false after printing why. */
bool trial_init(struct trial *trial, const struct problem *problem, const struct target *target,
                enum trial_data data, uint64_t seed);
void trial_done(struct trial *trial);
/* Poisons the output, runs |kernel| (NULL: builds one). */
bool trial_run(struct trial *trial, struct opencl_device *device, struct opencl_kernel *kernel);
/* Every element within its bound and nothing else written; else prints the problem and why. */
bool trial_is_right(struct trial *trial);
