/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One trial of a solution: fresh operands, a poisoned output and workspace, a run, and the
 * reference's verdict.
 *
 * Ownership  a trial owns its memories (trial_done)
 * Threading  one thread
 */
#include "cli/driver/reference.h"
#include "tests/kernels/opencl_device.h"
#include "tests/kernels/problem_for_reference.h"

#define TENSORS 3 /* KILN_TENSOR_X, _W, _Y */
/* Elements behind each tensor, and bytes behind the workspace, that no kernel may touch. */
#define GUARD 64

enum trial_data {
    DATA_EXACT,   /* storage_fill: a correct result is right to the last bit */
    DATA_GENERAL, /* any values: a correct result lies within the rounding bound */
};

struct trial {
    struct kiln_problem problem;
    struct solution solution;
    /* Owned data, each with its guard behind; the first three are KILN_TENSOR_X, _W, _Y. */
    struct opencl_tensor tensors[OPENCL_MEMORIES];
    uint64_t elements[TENSORS];
    int output; /* KILN_TENSOR_* */
    double quantum;
};

struct trial_options {
    struct solver_choice choice; /* empty: the best solver's default */
    enum trial_data data;
    uint64_t seed; /* of the data */
};

/* Solves |problem| and fills its tensors. Returns false after it printed the reason. */
bool trial_init(struct trial *trial, const struct problem *problem, const struct target *target,
                const struct trial_options *options);
void trial_done(struct trial *trial);
/* Poisons output and workspace, runs |kernels|. */
bool trial_run(struct trial *trial, struct opencl_device *device, struct opencl_kernels *kernels);
/* The same with kernels that it builds. */
bool trial_build_and_run(struct trial *trial, struct opencl_device *device,
                         enum opencl_effort effort);
/* Every element within its bound and nothing else written; else prints the problem and why. */
bool trial_is_right(struct trial *trial);
