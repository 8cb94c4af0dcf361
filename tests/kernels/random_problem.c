/* SPDX-License-Identifier: MIT */
#include "tests/kernels/random_problem.h"

#define MULTIPLY_ADDS_MAX 4e6
/* Limit for backward data: pixels of x * taps * channels of y. The reference and ConvDirectNaive
 * check all of these combinations, although with a stride only few are multiplied. */
#define VISITS_MAX (8 * MULTIPLY_ADDS_MAX)

/* Returns a random number from |least| to |most|. */
static uint32_t between(uint64_t *state, uint32_t least, uint32_t most)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return least + (uint32_t)((*state >> 33) % (most - least + 1));
}

static bool one_in(uint64_t *state, uint32_t many) { return between(state, 1, many) == 1; }

struct axis {
    uint32_t in, filter, pad, stride, dilation;
};

static struct axis choose_axis(uint64_t *state)
{
    struct axis a;
    a.in = one_in(state, 6) ? 1 : between(state, 2, 17);
    a.filter = one_in(state, 8) ? 7 : between(state, 1, 4);
    a.pad = one_in(state, 6) ? a.filter + between(state, 1, 2) : between(state, 0, a.filter);
    a.stride = one_in(state, 6) ? a.filter + between(state, 1, 3) : between(state, 1, 3);
    a.dilation = one_in(state, 3) ? between(state, 2, 4) : 1;
    return a;
}

/* Chooses filters that do not overlap, like those of a vision transformer's first layer. One in
 * four is large. */
static struct axis choose_patches(uint64_t *state)
{
    uint32_t size = one_in(state, 4) ? between(state, 14, 33) : between(state, 1, 4);
    return (struct axis){ size * between(state, 1, 4), size, 0, size, 1 };
}

static void choose_channels(uint64_t *state, struct problem *p)
{
    bool depthwise = one_in(state, 5);
    if (one_in(state, 4)) { /* multiples of 8, for which kernels use vector loads */
        p->groups = one_in(state, 3) ? 2 : 1;
        p->c = p->groups * 8 * between(state, 1, 12);
        p->k = p->groups * 8 * between(state, 1, 12);
        return;
    }
    p->groups = one_in(state, 2) ? 1 : between(state, 2, 6);
    p->c = p->groups * (depthwise ? 1 : between(state, 1, 9));
    p->k = p->groups * between(state, 1, depthwise ? 2 : 9);
}

static struct problem choose(uint64_t *state, enum direction direction)
{
    struct problem p = { .direction = direction,
                         .spatial_dims = one_in(state, 3) ? 3 : 2,
                         .type = between(state, 0, TYPE_BFLOAT16),
                         .x_layout = between(state, 0, 1),
                         .w_layout = between(state, 0, 1),
                         .y_layout = between(state, 0, 1),
                         .n = between(state, 1, 4) };
    struct axis d = { .in = 1, .filter = 1, .stride = 1, .dilation = 1 };
    choose_channels(state, &p);
    bool patches = one_in(state, 8);
    if (p.spatial_dims == 3)
        d = patches ? choose_patches(state) : choose_axis(state);
    struct axis h = patches ? choose_patches(state) : choose_axis(state);
    struct axis w = patches ? choose_patches(state) : choose_axis(state);
    p.in = (struct extent){ d.in, h.in, w.in };
    p.filter = (struct extent){ d.filter, h.filter, w.filter };
    p.pad = (struct extent){ d.pad, h.pad, w.pad };
    p.stride = (struct extent){ d.stride, h.stride, w.stride };
    p.dilation = (struct extent){ d.dilation, h.dilation, w.dilation };
    return p;
}

static bool is_small(const struct problem *p)
{
    double taps = (double)p->filter.d * p->filter.h * p->filter.w;
    double visits = (double)problem_x_elements(p) * taps * (p->k / p->groups);
    return problem_flops(p) < 2 * MULTIPLY_ADDS_MAX &&
           (p->direction != DIRECTION_BACKWARD_DATA || visits < VISITS_MAX);
}

struct problem random_problem(uint64_t *state, enum direction direction)
{
    for (;;) {
        struct kiln_err err = KILN_ERR_INIT;
        struct problem p = choose(state, direction);
        if (!problem_check(&p, &err) && is_small(&p))
            return p;
    }
}

#define ONE_OF(state, ...)                        \
    (((const uint32_t[]){ __VA_ARGS__ })[between( \
        state, 0, sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t) - 1)])

static void choose_layer_channels(uint64_t *state, struct problem *p)
{
    p->groups = ONE_OF(state, 1, 1, 1, 2, 4, 32);
    if (one_in(state, 3)) { /* depthwise */
        p->groups = ONE_OF(state, 16, 32, 48, 96, 512);
        p->c = p->groups;
        p->k = p->groups * ONE_OF(state, 1, 1, 1, 2);
        return;
    }
    p->c = p->groups * ONE_OF(state, 1, 3, 4, 8, 16, 24, 32, 64, 100, 256, 512);
    p->k = p->groups * ONE_OF(state, 8, 16, 32, 64, 72, 128, 512);
}

static struct extent cube(uint32_t dims, uint32_t edge)
{
    return (struct extent){ dims == 3 ? edge : 1, edge, edge };
}

static struct problem choose_layer(uint64_t *state, enum direction direction)
{
    uint32_t dims = one_in(state, 3) ? 3 : 2;
    uint32_t layout = between(state, 0, 1);
    struct problem p = { .direction = direction,
                         .spatial_dims = dims,
                         .type = between(state, 0, TYPE_BFLOAT16),
                         .x_layout = layout,
                         .w_layout = layout,
                         .y_layout = layout,
                         .n = ONE_OF(state, 1, 2, 4, 8, 64),
                         .in = cube(dims, ONE_OF(state, 7, 14, 28, 30, 56, 112)),
                         .filter = cube(dims, ONE_OF(state, 1, 3, 3, 3, 5, 7)),
                         .stride = cube(dims, ONE_OF(state, 1, 1, 1, 2)),
                         .dilation = cube(dims, ONE_OF(state, 1, 1, 1, 2)) };
    choose_layer_channels(state, &p);
    if (one_in(state, 6))
        p.filter.h = 1;
    if (dims == 3 &&
        one_in(state, 2)) { /* as in video networks: the layer keeps the number of frames */
        p.in.d = between(state, 3, 16);
        p.stride.d = 1;
    }
    if (!one_in(state, 6))
        p.pad = (struct extent){ p.filter.d / 2 * p.dilation.d, p.filter.h / 2 * p.dilation.h,
                                 p.filter.w / 2 * p.dilation.w };
    return p;
}

struct problem random_layer(uint64_t *state, enum direction direction)
{
    for (;;) {
        struct kiln_err err = KILN_ERR_INIT;
        struct problem p = choose_layer(state, direction);
        if (!problem_check(&p, &err))
            return p;
    }
}
