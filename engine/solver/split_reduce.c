/* SPDX-License-Identifier: MIT */
#include "engine/solver/split_reduce.h"

#include "engine/solver/options.h"
#include "engine/solver/sources.h"

#define GROUP_SIZE 256u
#define SLICES_MAX 64u
/* Number of work groups that keep the memory of a large GPU busy: four for each of 132 compute
 * units. */
#define GROUPS_WANTED 528u

static const char *const header_names[] = { "kiln/prelude.h" };

static uint32_t slices_for(const struct split_reduce *r)
{
    uint32_t slices = 1;
    while (slices < SLICES_MAX && slices * 2 <= r->splits &&
           r->elements * slices / GROUP_SIZE < GROUPS_WANTED)
        slices *= 2;
    return slices;
}

void split_reduce_add(const struct split_reduce *r, struct solution *solution)
{
    struct solution_program *program = &solution->programs[solution->program_count];
    struct option_text text = { program->options, sizeof(program->options), 0 };
    uint32_t slices = slices_for(r), outputs = GROUP_SIZE / slices;
    program->name = "conv_split_reduce.cl";
    program->source = bytes_of(kernels_conv_split_reduce, kernels_conv_split_reduce_size);
    program->header_names = header_names;
    program->header_texts[0] = bytes_of(kernels_prelude, kernels_prelude_size);
    program->header_count = 1;
    option_define(&text, "TYPE", r->type);
    option_define(&text, "SLICES", slices);
    solution->kernels[solution->kernel_count++] = (struct solution_kernel){
        .name = "conv_split_reduce_sum",
        .program = solution->program_count++,
        .grid = { (uint32_t)((r->elements + outputs - 1) / outputs), 1, 1 },
        .group = { GROUP_SIZE, 1, 1 },
        .argument_count = 4,
        .arguments = { r->parts,
                       r->output,
                       { ARGUMENT_U32, r->elements },
                       { ARGUMENT_U32, r->splits } },
    };
}
