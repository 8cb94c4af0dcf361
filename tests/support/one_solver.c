/* SPDX-License-Identifier: MIT */
/* A list of solvers with ConvDirectNaive alone, for tests of plans that must not depend on the real
 * list. That solver solves every problem with one program and has nothing to tune. A test that
 * links this file replaces engine/solver/solvers.c. */
#include "engine/solver/conv_direct_naive.h"

const struct solver *const solvers[] = {
    &solver_conv_direct_naive,
    NULL,
};
