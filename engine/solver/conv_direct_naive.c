/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_direct_naive.h"

#include "engine/solver/sources.h"

#include <stdio.h>

/* One wavefront of AMD's older GPUs, two warps of NVIDIA's; small enough that a small problem
 * still spreads over the compute units. */
#define GROUP_SIZE 64u
/* Outputs of one item: each value read is used that often, and as many sums run side by side. */
#define BLOCK_MOST 4u

static const char *const header_names[] = { "kiln/prelude.h" };
static const char *const kernel_names[] = { "conv_direct_naive_forward",
                                            "conv_direct_naive_backward_data",
                                            "conv_direct_naive_backward_weights" };

/* The kernel counts coordinates of the padded input in 32 bits, with a sign. */
static bool fits(uint32_t in, uint32_t filter, uint32_t pad, uint32_t stride, uint32_t dilation)
{
    uint64_t window = (uint64_t)filter * dilation;
    return window < 1u << 30 && (uint64_t)in + 2 * (uint64_t)pad + stride < 1u << 30;
}

static bool applies(const struct problem *p, const struct target *target)
{
    (void)target;             /* the kernel's dialect covers every family */
    if (p->type == TYPE_INT8) /* not in kernels/prelude.h */
        return false;
    return fits(p->in.d, p->filter.d, p->pad.d, p->stride.d, p->dilation.d) &&
           fits(p->in.h, p->filter.h, p->pad.h, p->stride.h, p->dilation.h) &&
           fits(p->in.w, p->filter.w, p->pad.w, p->stride.w, p->dilation.w);
}

static uint32_t block_of(uint32_t channels)
{
    uint32_t block = BLOCK_MOST;
    while (channels % block)
        block--;
    return block;
}

/* Neighbouring outputs are those of one group: of y along k, of x and w along c. */
static uint32_t block_for(const struct problem *p)
{
    return block_of((p->direction == DIRECTION_FORWARD ? p->k : p->c) / p->groups);
}

static uint64_t output_elements(const struct problem *p)
{
    switch (p->direction) {
    case DIRECTION_FORWARD: return problem_y_elements(p);
    case DIRECTION_BACKWARD_DATA: return problem_x_elements(p);
    default: return problem_w_elements(p);
    }
}

struct text { /* options under construction */
    char *data;
    size_t size, used;
};

static void define(struct text *text, const char *name, const char *axis, uint32_t value)
{
    int length = snprintf(text->data + text->used, text->size - text->used, "%s-DKILN_%s%s=%u",
                          text->used ? " " : "", name, axis, (unsigned)value);
    text->used += (size_t)length;
    if (text->used >= text->size)
        text->used = text->size - 1;
}

static void define_extent(struct text *text, const char *name, struct extent value)
{
    define(text, name, "_D", value.d);
    define(text, name, "_H", value.h);
    define(text, name, "_W", value.w);
}

static void write_options(const struct problem *p, char *options, size_t size)
{
    struct text text = { options, size, 0 };
    define(&text, "DIRECTION", "", p->direction);
    define(&text, "TYPE", "", p->type);
    define(&text, "C", "", p->c);
    define(&text, "K", "", p->k);
    define(&text, "GROUPS", "", p->groups);
    define_extent(&text, "IN", p->in);
    define_extent(&text, "OUT", problem_output(p));
    define_extent(&text, "FILTER", p->filter);
    define_extent(&text, "PAD", p->pad);
    define_extent(&text, "STRIDE", p->stride);
    define_extent(&text, "DILATION", p->dilation);
    define(&text, "X_LAST", "", p->x_layout == LAYOUT_CHANNELS_LAST);
    define(&text, "W_LAST", "", p->w_layout == LAYOUT_CHANNELS_LAST);
    define(&text, "Y_LAST", "", p->y_layout == LAYOUT_CHANNELS_LAST);
    define(&text, "BLOCK", "", block_for(p));
    define(&text, "GROUP_SIZE", "", GROUP_SIZE);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            struct solution *ret_solution, struct kiln_err *err)
{
    (void)target;
    (void)err;
    uint64_t items = output_elements(p) / block_for(p);
    *ret_solution = (struct solution){
        .solver = &solver_conv_direct_naive,
        .program_count = 1,
        .programs = { {
            .name = "conv_direct_naive.cl",
            .source = bytes_of(kernels_conv_direct_naive, kernels_conv_direct_naive_size),
            .header_names = header_names,
            .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size) },
            .header_count = 1,
        } },
        .kernel_count = 1,
        .kernels = { {
            .name = kernel_names[p->direction],
            .program = 0,
            .grid = { (uint32_t)((items + GROUP_SIZE - 1) / GROUP_SIZE), 1, 1 },
            .group = { GROUP_SIZE, 1, 1 },
            .argument_count = 4,
            .arguments = { { ARGUMENT_X, 0 },
                           { ARGUMENT_W, 0 },
                           { ARGUMENT_Y, 0 },
                           { ARGUMENT_U32, p->n } },
        } },
    };
    write_options(p, ret_solution->programs[0].options, sizeof(ret_solution->programs[0].options));
    return KILN_OK;
}

const struct solver solver_conv_direct_naive = {
    .name = "ConvDirectNaive",
    .applies = applies,
    .solve = solve,
};
