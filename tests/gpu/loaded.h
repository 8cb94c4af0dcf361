/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A solution loaded onto the GPU, ready to launch on a bench's tensors.
 *
 * Ownership  loaded_open / loaded_close; the solution is borrowed
 * Threading  one thread
 */
#include "engine/solver/solver.h"
#include "tests/gpu/judge.h"

struct loaded {
    struct cuda *cuda;               /* borrowed */
    const struct solution *solution; /* borrowed */
    void *modules[LIMIT_PLAN_KERNELS];
    void *functions[LIMIT_PLAN_KERNELS];
    struct cuda_resources most; /* of any kernel; of the one with most registers, the others */
    struct guarded workspace;
    const struct bench *bench; /* borrowed; what loaded_launch works on */
};

/* |objects| are those of the solution's programs.  Poisons the workspace. */
KILN_MUST_CHECK enum kiln_code loaded_open(struct cuda *cuda, const struct solution *solution,
                                           const struct bytes *objects, const struct bench *bench,
                                           struct loaded *ret_loaded, struct kiln_err *err);
void loaded_close(struct loaded *loaded);
/* A cuda_work: all kernels, in order, without waiting; |context| is a struct loaded. */
enum kiln_code loaded_launch(void *context, struct kiln_err *err);
