/* SPDX-License-Identifier: MIT */
#pragma once

#include "engine/solver/solver.h"
#include "tests/support/test.h"

struct fixture {
    const char *solver;
    struct problem problem;
    struct target target;
    struct solution solution;
    struct kiln_err err;
};

/* Makes |f->problem| from |problem|. A size, filter, stride, padding, dilation or number of groups
 * that is 0 gets the value of a 2-D 3x3 convolution whose y is as large as x. */
void fill_fixture(struct fixture *f, const char *solver, const char *target,
                  const struct problem *problem);
/* Defines FIXTURE(solver) for the solver |name|. The further arguments are members of the
 * problem. */
#define SOLVER_FIXTURE(name, target, ...)               \
    SET_UP(make_fixture)                                \
    {                                                   \
        const struct problem problem = { __VA_ARGS__ }; \
        fill_fixture(f, (name), (target), &problem);    \
    }                                                   \
    FIXTURE(solver, make_fixture, NULL)
#define CHANNELS_LAST                                                   \
    .x_layout = LAYOUT_CHANNELS_LAST, .w_layout = LAYOUT_CHANNELS_LAST, \
    .y_layout = LAYOUT_CHANNELS_LAST
void set_target(struct fixture *f, const char *text);
void put_channels_last(struct fixture *f);
/* Solves |f->problem| with |config|, or with the solver's own choice if |config| is "". */
enum kiln_code solve(struct fixture *f, const char *config);
/* Returns the solution's kernel |name|, or NULL. */
const struct solution_kernel *kernel_named(const struct fixture *f, const char *name);
