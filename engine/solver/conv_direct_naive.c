/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_direct_naive.h"

#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"

/* Items of a work group: one wavefront of AMD's older GPUs.  With such small work groups, even
 * small problems use all compute units. */
#define GROUP_SIZE 64u
#define BLOCK_MAX 4u

static const char *const header_names[] = { "kiln/prelude.h" };
static const char *const kernel_names[] = { "conv_direct_naive_forward",
                                            "conv_direct_naive_backward_data",
                                            "conv_direct_naive_backward_weights" };

static bool applies(const struct problem *p, const struct target *target)
{
    (void)target;
    if (p->type == TYPE_INT8) /* kernels/prelude.h does not support int8 */
        return false;
    return geometry_fits_30_bits(p);
}

static uint32_t block_of(uint32_t channels)
{
    uint32_t block = BLOCK_MAX;
    while (channels % block)
        block--;
    return block;
}

/* Returns the number of outputs of an item.  They are neighbours along k if y is computed, and
 * along c otherwise, and belong to one group of the convolution. */
static uint32_t block_for(const struct problem *p)
{
    return block_of((p->direction == DIRECTION_FORWARD ? p->k : p->c) / p->groups);
}

static void write_options(const struct problem *p, char *options, size_t size)
{
    struct option_text text = { options, size, 0 };
    option_define_problem(&text, p);
    option_define(&text, "BLOCK", block_for(p));
    option_define(&text, "GROUP_SIZE", GROUP_SIZE);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)target;
    (void)config;
    (void)err;
    uint64_t items = geometry_output_elements(p) / block_for(p);
    *ret_solution = (struct solution){
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
    .algorithm = "Direct",
    .applies = applies,
    .solve = solve,
};
