/* SPDX-License-Identifier: MIT */
#pragma once

/* One problem on one target, for the tests of a solver. */
#include "engine/solver/solver.h"
#include "tests/support/test.h"

struct fixture {
    const char *solver; /* its name */
    struct problem problem;
    struct target target;
    struct solution solution;
    struct kiln_err err;
};

/* Makes the fixture of a test, in static memory. What |problem| leaves zero is that of a 3x3
 * convolution of images that keeps their size: filter, stride, padding, dilation and groups. */
struct fixture *make_solver_fixture(const char *solver, const char *target,
                                    const struct problem *problem);
void set_target(struct fixture *f, const char *text);
void put_channels_last(struct fixture *f);
/* Solves the problem by the fixture's solver with |config|, "" for its own choice. */
enum kiln_code solve(struct fixture *f, const char *config);
/* A kernel of the solution; NULL: it has none of that name. */
const struct solution_kernel *kernel_named(const struct fixture *f, const char *name);
