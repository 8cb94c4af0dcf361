/* SPDX-License-Identifier: MIT */
#pragma once

/* A solution whose kernels are loaded onto the GPU, and which can be launched with the tensors of a
 * bench (judge.h).
 *
 * Ownership  loaded_open / loaded_close; the solution is borrowed
 * Threading  one thread */
#include "engine/solver/solver.h"
#include "tests/gpu/judge.h"

struct loaded {
    struct cuda *cuda;
    const struct solution *solution;
    void *modules[LIMIT_PLAN_KERNELS];
    void *functions[LIMIT_PLAN_KERNELS];
    struct cuda_resources most; /* for each resource, the maximum over the kernels */
    struct guarded workspace;
    const struct bench *bench;
};

/* The caller sets |cuda|, |solution| and |bench|, and zeroes the other members. |objects| has the
 * compiled object of each program. Allocates the workspace and fills it with NaNs. */
KILN_MUST_CHECK enum kiln_code loaded_open(struct loaded *loaded, const struct bytes *objects,
                                           struct kiln_err *err);
void loaded_close(struct loaded *loaded);
/* Launches all kernels in order. |context| is a struct loaded. For struct cuda_work. */
enum kiln_code loaded_launch(void *context, struct kiln_err *err);
