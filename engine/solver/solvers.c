/* SPDX-License-Identifier: MIT */
/* This list is a separate file so that a test can link a different list. */
#include "engine/solver/conv_depthwise.h"
#include "engine/solver/conv_direct_naive.h"
#include "engine/solver/conv_direct_narrow.h"
#include "engine/solver/conv_grouped.h"
#include "engine/solver/conv_implicit_gemm.h"
#include "engine/solver/conv_pointwise.h"
#include "engine/solver/conv_winograd.h"

const struct solver *const solvers[] = {
    &solver_conv_grouped, /* uses matrix cores, so it precedes the solvers on the vector units */
    &solver_conv_depthwise,
    &solver_conv_pointwise,
    &solver_conv_direct_narrow,
    &solver_conv_winograd,
    &solver_conv_implicit_gemm,
    &solver_conv_direct_naive, /* last, because it applies to almost everything */
    NULL,
};
