/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/test_problem.h"

#include <kiln/problem.h>

static inline struct kiln_problem public_problem(const struct problem *p)
{
    return (struct kiln_problem){
        .size = sizeof(struct kiln_problem),
        .direction = p->direction,
        .spatial_dims = p->spatial_dims,
        .type = p->type,
        .x_layout = p->x_layout,
        .w_layout = p->w_layout,
        .y_layout = p->y_layout,
        .n = p->n,
        .c = p->c,
        .k = p->k,
        .groups = p->groups,
        .allow_tf32 = p->allow_tf32,
        .in = { p->in.d, p->in.h, p->in.w },
        .filter = { p->filter.d, p->filter.h, p->filter.w },
        .pad = { p->pad.d, p->pad.h, p->pad.w },
        .stride = { p->stride.d, p->stride.h, p->stride.w },
        .dilation = { p->dilation.d, p->dilation.h, p->dilation.w },
    };
}

static inline struct kiln_problem public_test_problem(uint32_t n)
{
    const struct problem problem = test_problem(n);
    return public_problem(&problem);
}
