/* SPDX-License-Identifier: MIT */
/* For tests of what is done with plans, whatever solvers there are: ConvDirectNaive alone, which
 * solves everything with one program and has nothing to tune.  Takes the place of
 * engine/solver/solvers.c where it is linked. */
#include "engine/solver/conv_direct_naive.h"

const struct solver *const solvers[] = {
    &solver_conv_direct_naive,
    NULL,
};
