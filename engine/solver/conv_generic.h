/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ConvGeneric: convolutions of any size with a fixed set of programs (kernels/conv_generic.cl and
 * kernels/conv_generic_mma.cl).
 *
 * Role       stands in for another solver whose kernels are not compiled yet
 *            (docs/decisions/0025-generic-kernels.md).  It is not in solvers[], so neither the
 *            heuristic nor find chooses it; a caller may name it
 * Threading  pure functions
 */
#include "engine/solver/solver.h"

extern const struct solver solver_conv_generic;

/* A problem and a perf config.  Together, the samples of a target need every program of the solver
 * for this target. */
struct generic_sample {
    struct problem problem;
    char config[PERF_CONFIG_TEXT_MAX];
};
uint32_t conv_generic_samples(const struct target *target);
struct generic_sample conv_generic_sample(uint32_t index); /* below conv_generic_samples */
