/* SPDX-License-Identifier: MIT */
/* The list of solvers: a file of its own, so that a test may bring another one. */
#include "engine/solver/conv_depthwise.h"
#include "engine/solver/conv_direct_naive.h"
#include "engine/solver/conv_direct_narrow.h"
#include "engine/solver/conv_grouped.h"
#include "engine/solver/conv_implicit_gemm.h"
#include "engine/solver/conv_winograd.h"

const struct solver *const solvers[] = {
    &solver_conv_depthwise,
    &solver_conv_direct_narrow,
    &solver_conv_grouped,
    &solver_conv_winograd,
    &solver_conv_implicit_gemm,
    &solver_conv_direct_naive, /* solves everything, so it comes last */
    NULL,
};
