/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_generic_pack.h"

#include "engine/solver/conv_generic_parts.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"

#define CHUNK_BYTES 16u
#define ITEMS 256u /* these are constants of the kernel */
#define SPOTS 128u
#define CHANNELS 32u
#define ALIGNMENT 256u

static uint32_t round_up(uint32_t count, uint32_t unit)
{
    return (uint32_t)ceil_div(count, unit) * unit;
}

struct problem generic_packed_problem(const struct problem *p)
{
    uint32_t chunk = CHUNK_BYTES / (uint32_t)data_type_size((enum data_type)p->type);
    struct problem packed = *p;
    packed.c = round_up(p->c / p->groups, chunk) * p->groups;
    packed.k = round_up(p->k / p->groups, chunk) * p->groups;
    packed.x_layout = packed.w_layout = packed.y_layout = LAYOUT_CHANNELS_LAST;
    return packed;
}

/* A tensor in the terms of conv_generic_pack.cl. */
struct tensor {
    uint32_t blocks, rows, rows_packed, groups, c, c_packed;
    uint64_t pixels, spots;
};

static uint64_t pixels_of(struct extent e) { return (uint64_t)e.d * e.h * e.w; }

static struct tensor tensor_of(const struct problem *p, enum argument_kind kind)
{
    struct problem q = generic_packed_problem(p);
    struct tensor t = { .blocks = 1, .rows = p->n, .rows_packed = p->n, .groups = p->groups };
    if (kind == ARGUMENT_W) {
        t.blocks = p->groups;
        t.rows = p->k / p->groups;
        t.rows_packed = q.k / p->groups;
        t.groups = 1;
    }
    t.c = (kind == ARGUMENT_Y ? p->k : p->c) / p->groups;
    t.c_packed = (kind == ARGUMENT_Y ? q.k : q.c) / p->groups;
    t.pixels = pixels_of(kind == ARGUMENT_X   ? p->in
                         : kind == ARGUMENT_W ? p->filter
                                              : problem_output(p));
    t.spots = (uint64_t)t.blocks * t.rows_packed * t.pixels;
    return t;
}

static uint64_t packed_elements(const struct tensor *t)
{
    return t->spots * t->groups * t->c_packed;
}

static uint64_t tiles_of(const struct tensor *t)
{
    return ceil_div(t->spots, SPOTS) * t->groups * ceil_div(t->c_packed, CHANNELS);
}

static bool is_packed(const struct problem *p, const struct tensor *t)
{
    return (p->x_layout == LAYOUT_CHANNELS_LAST || t->pixels == 1) && t->c == t->c_packed &&
           t->rows == t->rows_packed;
}

bool generic_is_packed(const struct problem *p, enum argument_kind tensor)
{
    struct tensor t = tensor_of(p, tensor);
    return is_packed(p, &t);
}

bool generic_can_pack(const struct problem *p, const struct target *target)
{
    for (enum argument_kind kind = ARGUMENT_X; kind <= ARGUMENT_Y; kind++) {
        struct tensor t = tensor_of(p, kind);
        if (!is_packed(p, &t) && (packed_elements(&t) > INT32_MAX ||
                                  !geometry_is_launchable(target, tiles_of(&t), ITEMS)))
            return false;
    }
    return true;
}

static uint64_t operand_bytes(const struct problem *p, const struct tensor *t)
{
    uint64_t size = packed_elements(t) * data_type_size((enum data_type)p->type);
    return is_packed(p, t) ? 0 : ceil_div(size, ALIGNMENT) * ALIGNMENT;
}

uint64_t generic_operand_bytes(const struct problem *p)
{
    static const enum argument_kind results[] = { [DIRECTION_FORWARD] = ARGUMENT_Y,
                                                  [DIRECTION_BACKWARD_DATA] = ARGUMENT_X,
                                                  [DIRECTION_BACKWARD_WEIGHTS] = ARGUMENT_W };
    uint64_t size = 0;
    for (enum argument_kind kind = ARGUMENT_X; kind <= ARGUMENT_Y; kind++) {
        struct tensor t = tensor_of(p, kind);
        size += kind == results[p->direction] ? 0 : operand_bytes(p, &t);
    }
    return size;
}

/* ---- the kernels ---- */

static const char *const header_names[] = { "kiln/prelude.h" };

static uint32_t add_program(const struct problem *p, bool unpacks, struct solution *solution)
{
    struct solution_program *program = &solution->programs[solution->program_count];
    struct option_text text = { program->options, sizeof(program->options), 0 };
    *program = (struct solution_program){
        .name = "conv_generic_pack.cl",
        .source = bytes_of(kernels_conv_generic_pack, kernels_conv_generic_pack_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size) },
        .header_count = 1,
    };
    option_define(&text, "TYPE", p->type);
    option_define(&text, "LAST", p->x_layout == LAYOUT_CHANNELS_LAST);
    option_define(&text, "UNPACK", unpacks);
    return solution->program_count++;
}

/* Adds a kernel without its name. */
static struct solution_kernel *add_kernel(const struct tensor *t, struct solution_argument from,
                                          struct solution_argument to, struct solution *solution)
{
    struct solution_kernel *kernel = &solution->kernels[solution->kernel_count++];
    *kernel = (struct solution_kernel){ .grid = { (uint32_t)tiles_of(t), 1, 1 },
                                        .group = { ITEMS, 1, 1 },
                                        .argument_count = 2,
                                        .arguments = { from, to } };
    generic_add_number(kernel, t->rows);
    generic_add_number(kernel, t->rows_packed);
    generic_add_number(kernel, (uint32_t)t->pixels);
    generic_add_number(kernel, t->groups);
    generic_add_number(kernel, t->c);
    generic_add_number(kernel, t->c_packed);
    generic_add_number(kernel, (uint32_t)t->spots);
    return kernel;
}

void generic_pack_operands(const struct problem *p, const enum argument_kind operands[2],
                           struct solution *solution, struct solution_argument ret_packed[2])
{
    uint64_t at = 0;
    uint32_t program = solution->program_count;
    for (int i = 0; i < 2; i++) {
        struct tensor t = tensor_of(p, operands[i]);
        struct solution_argument plain = { operands[i], 0 };
        ret_packed[i] = plain;
        if (is_packed(p, &t))
            continue;
        if (solution->program_count == program)
            add_program(p, false, solution);
        ret_packed[i] = (struct solution_argument){ ARGUMENT_WORKSPACE, at };
        at += operand_bytes(p, &t);
        struct solution_kernel *kernel = add_kernel(&t, plain, ret_packed[i], solution);
        kernel->name = "conv_generic_pack";
        kernel->program = program;
    }
}

void generic_unpack_sums(const struct problem *p, struct solution_argument sums,
                         enum argument_kind result, struct solution *solution)
{
    struct tensor t = tensor_of(p, result);
    struct solution_kernel *kernel =
        add_kernel(&t, sums, (struct solution_argument){ result, 0 }, solution);
    kernel->name = "conv_generic_unpack";
    kernel->program = add_program(p, true, solution);
}
