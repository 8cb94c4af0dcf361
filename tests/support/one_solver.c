/* SPDX-License-Identifier: MIT */
/* Replaces engine/solver/solvers.c, so that tests of plans do not depend on the real list of
 * solvers. ConvDirectNaive solves every problem with one program and has nothing to tune. */
#include "engine/solver/conv_direct_naive.h"

const struct solver *const solvers[] = {
    &solver_conv_direct_naive,
    NULL,
};
