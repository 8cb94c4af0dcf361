/* SPDX-License-Identifier: MIT */
#include "tests/kernels/problem_for_reference.h"

struct kiln_problem problem_for_reference(const struct problem *p)
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
