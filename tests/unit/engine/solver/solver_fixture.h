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

/* Members of |problem| that are zero get the values of a 2-D 3x3 convolution that keeps the
 * images' size. This concerns the dimensions, filter, stride, padding, dilation and groups. */
void fill_fixture(struct fixture *f, const char *solver, const char *target,
                  const struct problem *problem);
/* Defines FIXTURE(solver). The arguments after |target| are the members of its problem. */
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
/* A |config| of "" means the solver's own choice. */
enum kiln_code solve(struct fixture *f, const char *config);
/* Returns NULL if no kernel of the solution has this name. */
const struct solution_kernel *kernel_named(const struct fixture *f, const char *name);
