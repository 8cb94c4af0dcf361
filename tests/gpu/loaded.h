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
    struct cuda_resources most; /* each the maximum over the kernels */
    struct guarded workspace;
    const struct bench *bench; /* borrowed: the tensors of loaded_launch */
};

/* Call it with |cuda|, |solution| and |bench| set and all other members zero.  |objects| are those
 * of the solution's programs.  Poisons the workspace. */
KILN_MUST_CHECK enum kiln_code loaded_open(struct loaded *loaded, const struct bytes *objects,
                                           struct kiln_err *err);
void loaded_close(struct loaded *loaded);
/* For struct cuda_work: launches all kernels in order; |context| is a struct loaded. */
enum kiln_code loaded_launch(void *context, struct kiln_err *err);
