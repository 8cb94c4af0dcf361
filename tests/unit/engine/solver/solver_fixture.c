/* SPDX-License-Identifier: MIT */
#include "tests/unit/engine/solver/solver_fixture.h"

#include <string.h>

static void set_default(struct extent *extent, struct extent value)
{
    if (extent->d == 0 && extent->h == 0 && extent->w == 0)
        *extent = value;
}

void fill_fixture(struct fixture *f, const char *solver, const char *target,
                  const struct problem *problem)
{
    *f = (struct fixture){ .solver = solver, .problem = *problem, .err = KILN_ERR_INIT };
    struct problem *p = &f->problem;
    if (p->filter.h == 0)
        set_default(&p->pad, (struct extent){ 0, 1, 1 });
    set_default(&p->filter, (struct extent){ 1, 3, 3 });
    set_default(&p->stride, (struct extent){ 1, 1, 1 });
    set_default(&p->dilation, (struct extent){ 1, 1, 1 });
    p->spatial_dims = p->spatial_dims ? p->spatial_dims : 2;
    p->groups = p->groups ? p->groups : 1;
    set_target(f, target);
}

void set_target(struct fixture *f, const char *text)
{
    must(target_parse(bytes_of_text(text), &f->target, &f->err), f->err);
}

void put_channels_last(struct fixture *f)
{
    f->problem.x_layout = f->problem.w_layout = f->problem.y_layout = LAYOUT_CHANNELS_LAST;
}

enum kiln_code solve(struct fixture *f, const char *config)
{
    struct solver_choice choice = { bytes_of_text(f->solver), bytes_of_text(config) };
    return solver_solve(&f->problem, &f->target, &choice, &f->solution, &f->err);
}

const struct solution_kernel *kernel_named(const struct fixture *f, const char *name)
{
    for (uint32_t i = 0; i < f->solution.kernel_count; i++)
        if (strcmp(f->solution.kernels[i].name, name) == 0)
            return &f->solution.kernels[i];
    return NULL;
}
