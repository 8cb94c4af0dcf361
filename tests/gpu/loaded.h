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
    struct cuda *cuda;
    const struct solution *solution;
    void *modules[LIMIT_PLAN_KERNELS];
    void *functions[LIMIT_PLAN_KERNELS];
    struct cuda_resources most; /* each member is the maximum over the kernels */
    struct guarded workspace;
    const struct bench *bench;
};

/* The caller sets |cuda|, |solution| and |bench|, and zeroes all other members.  |objects| has the
 * object of each program of the solution.  Poisons the workspace. */
KILN_MUST_CHECK enum kiln_code loaded_open(struct loaded *loaded, const struct bytes *objects,
                                           struct kiln_err *err);
void loaded_close(struct loaded *loaded);
/* Launches all kernels in order.  For struct cuda_work; |context| is a struct loaded. */
enum kiln_code loaded_launch(void *context, struct kiln_err *err);
