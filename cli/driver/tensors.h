/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A problem's tensors: random operands and a poisoned output on the device, and copies of the
 * operands on the host for the reference.
 *
 * Ownership  tensors own their memory on device and host; destroy them before closing the device
 * Threading  one thread
 */
#include "cli/fail.h"

#include <kiln/device.h>
#include <kiln/problem.h>

#include <stdbool.h>

struct tensors {
    struct kiln_memory *memory[3]; /* indexed by KILN_TENSOR_X, _W, _Y */
    double *wide[3];               /* the operands' values; NULL without verification */
    uint64_t elements[3], bytes[3];
    struct kiln_memory *workspace;
    int output; /* index of the tensor that the direction computes */
};

struct tensors_options {
    uint64_t seed;
    uint64_t workspace;
    bool verify;
};

/* Returns KILN_E_NO_MEMORY if the tensors, the workspace and (with |verify|) the reference do not
 * fit.  Called before compiling, so that nothing is compiled in vain. */
CLI_MUST_CHECK int tensors_check(const struct kiln_problem *problem,
                                 const struct tensors_options *options, struct kiln_error *err);
CLI_MUST_CHECK int tensors_create(struct kiln_device *device, const struct kiln_problem *problem,
                                  const struct tensors_options *options,
                                  struct tensors **ret_tensors, struct kiln_error *err);
void tensors_destroy(struct tensors *tensors);
static inline void tensors_auto(struct tensors **tensors) { tensors_destroy(*tensors); }
int tensors_output(const struct kiln_problem *problem);
