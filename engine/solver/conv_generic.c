/* SPDX-License-Identifier: MIT */
/*
 * ConvGeneric: a matrix product whose sizes are kernel arguments.  The first tilings are for the
 * vector units (kernels/conv_generic.cl), which divide the product as in
 * conv_implicit_gemm_vector.c; the others are for matrix cores (conv_generic_mma.c).  A program
 * depends on the direction, the type, the layout, the tiling, and whether the sum is split; not on
 * the problem's sizes.
 */
#include "engine/solver/conv_generic.h"

#include "engine/solver/conv_generic_mma.h"
#include "engine/solver/conv_generic_parts.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"
#include "engine/solver/split_reduce.h"

#include <math.h>

#define WORKSPACE_MAX (2ull << 30)
/* Kernels mark taps that meet padding by a mask, with one bit for each row, column and plane of
 * taps. */
#define TAP_BITS_MAX 31u
#define CLASSES_MAX 4096u
/* A part of a split sum has at least this number of products. */
#define PART_LEAST 256u
/* Work groups that a compute unit runs at a time. */
#define RESIDENT 2u
/* Products that a compute unit computes, at the rate 1, while it copies a byte. */
#define PRODUCTS_OF_BYTE 8.0

enum axis { TILING, SPLITS, AXES };

struct tiling {
    uint32_t m, n, k, item_m, item_n;
    double rate; /* relative speed of products, if no part of a tile is idle */
};
static const struct tiling tilings[] = {
    { 64, 64, 16, 4, 4, 0.7 },
    { 128, 128, 8, 8, 8, 1.0 },
    { 16, 128, 16, 4, 4, 0.45 },
};
#define TILINGS (sizeof(tilings) / sizeof(tilings[0]))

static const struct perf_axis axes[AXES] = {
    [TILING] = { "tiling", PERF_VALUES(0, 1, 2, 3, 4, 5) },
    [SPLITS] = { "splits", PERF_VALUES(1, 2, 4, 8, 16, 32, 64) },
};

static bool has_one_layout(const struct problem *p)
{
    return p->x_layout == p->w_layout && p->x_layout == p->y_layout;
}

static bool strides_are_small(const struct problem *p)
{
    return p->stride.d <= CLASSES_MAX && p->stride.h <= CLASSES_MAX && p->stride.w <= CLASSES_MAX &&
           generic_classes(p) <= CLASSES_MAX;
}

static uint32_t items_of(const struct tiling *t) { return t->m / t->item_m * (t->n / t->item_n); }

static struct generic_shape vector_shape(const struct problem *p, const struct tiling *t)
{
    struct generic_product product = generic_product_of(p);
    return (struct generic_shape){ .m = t->m,
                                   .n = t->n,
                                   .items = items_of(t),
                                   .tiles = ceil_div(product.channels, t->m) *
                                            ceil_div(product.others, t->n) * generic_classes(p) *
                                            p->groups,
                                   .depth = product.depth,
                                   .part_least = PART_LEAST,
                                   .resident = RESIDENT,
                                   .rate = t->rate };
}

/* |tiling| is below TILINGS, or generic_mma_applies. */
static struct generic_shape shape_of(const struct problem *p, const struct target *target,
                                     uint32_t tiling)
{
    return tiling < TILINGS ? vector_shape(p, &tilings[tiling])
                            : generic_mma_shape(p, target, tiling - TILINGS);
}

static uint64_t parts_bytes(const struct problem *p, uint32_t splits)
{
    return splits > 1 ? geometry_output_elements(p) * splits * sizeof(float) : 0;
}

static uint64_t workspace_of(const struct problem *p, uint32_t tiling, uint32_t splits)
{
    return tiling < TILINGS ? parts_bytes(p, splits) : generic_mma_workspace(p, splits);
}

static bool fits(const struct problem *p, const struct target *target, uint32_t tiling,
                 uint32_t splits)
{
    struct generic_shape shape = shape_of(p, target, tiling);
    return geometry_is_launchable(target, shape.tiles * splits, shape.items) &&
           workspace_of(p, tiling, splits) <= WORKSPACE_MAX;
}

static bool applies(const struct problem *p, const struct target *target)
{
    uint64_t bits = (uint64_t)p->filter.d + p->filter.h + p->filter.w;
    if (p->type == TYPE_INT8 || !has_one_layout(p) || !strides_are_small(p) ||
        (p->direction != DIRECTION_BACKWARD_WEIGHTS && bits > TAP_BITS_MAX))
        return false;
    return geometry_fits_30_bits(p) && fits(p, target, 0, 1);
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    (void)p;
    (void)target;
    return (struct perf_space){ .axes = axes, .count = AXES };
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    uint32_t tiling = config->values[TILING];
    return (tiling < TILINGS || generic_mma_applies(p, target)) &&
           fits(p, target, tiling, config->values[SPLITS]);
}

#define UNITS 132u /* compute units of a large GPU */

static uint32_t splits_for(const struct problem *p, const struct target *target, uint32_t tiling)
{
    struct generic_shape shape = shape_of(p, target, tiling);
    uint64_t wanted = (uint64_t)UNITS * shape.resident;
    uint32_t splits = 1;
    while (splits < 64 && shape.tiles * splits * 2 <= wanted &&
           shape.depth >= (uint64_t)splits * 2 * shape.part_least &&
           fits(p, target, tiling, splits * 2))
        splits *= 2;
    return splits;
}

/* Returns a number proportional to the time of the product, if compute units do not wait for
 * memory, and of packing. */
static double estimate(const struct generic_shape *shape, uint32_t splits)
{
    double rounds = ceil((double)shape->tiles * splits / (UNITS * shape->resident));
    return rounds * shape->resident * shape->m * shape->n * ((double)shape->depth / splits) /
               shape->rate +
           (double)shape->traffic * PRODUCTS_OF_BYTE / UNITS;
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    double least = INFINITY;
    uint32_t count = TILINGS + (generic_mma_applies(p, target) ? GENERIC_MMA_TILINGS : 0);
    *ret_config = (struct perf_config){ .count = AXES, .values = { 0, 1 } };
    for (uint32_t i = 0; i < count; i++) {
        if (!fits(p, target, i, 1))
            continue;
        struct generic_shape shape = shape_of(p, target, i);
        uint32_t splits = splits_for(p, target, i);
        double cost = estimate(&shape, splits);
        if (cost < least) {
            least = cost;
            ret_config->values[TILING] = (uint16_t)i;
            ret_config->values[SPLITS] = (uint16_t)splits;
        }
    }
}

/* ---- the solution ---- */

static bool has_fours(const struct problem *p)
{
    return p->x_layout == LAYOUT_CHANNELS_LAST && p->c / p->groups % 4 == 0 &&
           p->k / p->groups % 4 == 0;
}

static void write_options(const struct problem *p, const struct tiling *t, uint32_t splits,
                          struct solution_program *program)
{
    struct option_text text = { program->options, sizeof(program->options), 0 };
    option_define(&text, "DIRECTION", p->direction);
    option_define(&text, "TYPE", p->type);
    option_define(&text, "LAST", p->x_layout == LAYOUT_CHANNELS_LAST);
    option_define(&text, "FOUR", has_fours(p));
    option_define(&text, "TILE_M", t->m);
    option_define(&text, "TILE_N", t->n);
    option_define(&text, "TILE_K", t->k);
    option_define(&text, "ITEM_M", t->item_m);
    option_define(&text, "ITEM_N", t->item_n);
    option_define(&text, "SPLIT", splits > 1);
}

static const char *const header_names[] = { "kiln/prelude.h", "kiln/conv_view.h",
                                            "kiln/conv_sizes.h", "kiln/igemm_vector_fetch.h" };
static const char *const kernel_names[] = { "conv_generic_forward", "conv_generic_backward_data",
                                            "conv_generic_backward_weights" };
static const enum argument_kind operands[][3] = {
    /* A, B, result */
    [DIRECTION_FORWARD] = { ARGUMENT_W, ARGUMENT_X, ARGUMENT_Y },
    [DIRECTION_BACKWARD_DATA] = { ARGUMENT_W, ARGUMENT_Y, ARGUMENT_X },
    [DIRECTION_BACKWARD_WEIGHTS] = { ARGUMENT_Y, ARGUMENT_X, ARGUMENT_W },
};

static void add_vector_product(const struct problem *p, const struct tiling *t, uint32_t splits,
                               struct solution *solution)
{
    struct generic_shape shape = vector_shape(p, t);
    struct solution_program *program = &solution->programs[solution->program_count++];
    struct solution_kernel *kernel = &solution->kernels[solution->kernel_count++];
    *program = (struct solution_program){
        .name = "conv_generic.cl",
        .source = bytes_of(kernels_conv_generic, kernels_conv_generic_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size),
                          bytes_of(kernels_conv_view, kernels_conv_view_size),
                          bytes_of(kernels_conv_sizes, kernels_conv_sizes_size),
                          bytes_of(kernels_igemm_vector_fetch, kernels_igemm_vector_fetch_size) },
        .header_count = 4,
    };
    write_options(p, t, splits, program);
    *kernel = (struct solution_kernel){
        .name = kernel_names[p->direction],
        .grid = { (uint32_t)(shape.tiles * splits), 1, 1 },
        .group = { shape.items, 1, 1 },
    };
    generic_add_argument(kernel, operands[p->direction][0], 0);
    generic_add_argument(kernel, operands[p->direction][1], 0);
    generic_add_argument(kernel, splits > 1 ? ARGUMENT_WORKSPACE : operands[p->direction][2], 0);
    generic_add_number(kernel, (uint32_t)ceil_div(generic_product_of(p).others, t->n));
    generic_add_number(kernel, splits);
    generic_add_sizes(kernel, p);
}

static void solve_on_vector_units(const struct problem *p, const struct tiling *t, uint32_t splits,
                                  struct solution *solution)
{
    const struct split_reduce reduce = { .type = p->type,
                                         .parts = { ARGUMENT_WORKSPACE, 0 },
                                         .output = { operands[p->direction][2], 0 },
                                         .elements = geometry_output_elements(p),
                                         .splits = splits };
    add_vector_product(p, t, splits, solution);
    if (splits > 1)
        split_reduce_add(&reduce, solution);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)err;
    uint32_t tiling = config->values[TILING];
    uint32_t splits = config->values[SPLITS];
    *ret_solution = (struct solution){ .workspace_size = workspace_of(p, tiling, splits) };
    if (tiling < TILINGS)
        solve_on_vector_units(p, &tilings[tiling], splits, ret_solution);
    else
        generic_mma_solve(p, target, tiling - TILINGS, splits, ret_solution);
    return KILN_OK;
}

const struct solver solver_conv_generic = {
    .name = "ConvGeneric",
    .algorithm = "ImplicitGEMM",
    .applies = applies,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};

/* ---- samples ---- */

/* Returns index % count, and divides the index. */
static uint32_t take_digit(uint32_t *index, uint32_t count)
{
    uint32_t digit = *index % count;
    *index /= count;
    return digit;
}

static struct generic_sample sample_of(struct problem p, uint32_t tiling, uint32_t splits)
{
    struct generic_sample sample = { .problem = p };
    const struct perf_config config = { AXES, { (uint16_t)tiling, (uint16_t)splits } };
    perf_config_write(&config, sample.config);
    return sample;
}

static struct problem sample_problem(uint32_t direction, uint32_t type, bool is_last,
                                     uint32_t channels, uint32_t side)
{
    return (struct problem){ .direction = direction,
                             .spatial_dims = 2,
                             .type = type,
                             .x_layout = is_last,
                             .w_layout = is_last,
                             .y_layout = is_last,
                             .n = 1,
                             .c = channels,
                             .k = channels,
                             .groups = 1,
                             .in = { 1, side, side },
                             .filter = { 1, 3, 3 },
                             .pad = { 0, 1, 1 },
                             .stride = { 1, 1, 1 },
                             .dilation = { 1, 1, 1 } };
}

#define VECTOR_SAMPLES 648u
#define DIRECT_SAMPLES (3 * GENERIC_MMA_TILINGS * 2) /* of each type; without packing */
#define MMA_SAMPLES (DIRECT_SAMPLES + 2 * GENERIC_MMA_TILINGS + 4)

static struct generic_sample vector_sample(uint32_t index)
{
    uint32_t direction = take_digit(&index, 3), type = take_digit(&index, 3);
    uint32_t layout = take_digit(&index, 3), tiling = take_digit(&index, TILINGS);
    /* The program that adds up the parts depends on their number, and on the result's size. */
    uint32_t splits = index < 7 ? 1u << index : 2, side = index < 7 ? 8 : 256;
    uint32_t channels = layout == 2 ? 4 : 3;
    return sample_of(sample_problem(direction, type, layout > 0, channels, side), tiling, splits);
}

/* The samples that pack tensors: all tilings of the directions whose results are stored in the
 * caller's layout, then two for each layout, of which the second one also unpacks the result. */
static struct generic_sample packing_sample(uint32_t index, uint32_t type)
{
    uint32_t direction = index % 2, tiling = index / 2 % GENERIC_MMA_TILINGS, is_last = 0;
    if (index >= 2 * GENERIC_MMA_TILINGS) {
        uint32_t rest = index - 2 * GENERIC_MMA_TILINGS;
        direction = rest % 2 ? DIRECTION_BACKWARD_WEIGHTS : DIRECTION_FORWARD;
        is_last = rest / 2;
        tiling = 0;
    }
    struct problem p = sample_problem(direction, type, is_last, 7, 8);
    p.allow_tf32 = p.type == TYPE_FLOAT32;
    return sample_of(p, TILINGS + tiling, 1);
}

static struct generic_sample mma_sample(uint32_t index)
{
    static const enum data_type types[] = { TYPE_FLOAT16, TYPE_BFLOAT16, TYPE_FLOAT32 };
    uint32_t type = types[index / MMA_SAMPLES];
    index %= MMA_SAMPLES;
    if (index >= DIRECT_SAMPLES)
        return packing_sample(index - DIRECT_SAMPLES, type);
    uint32_t direction = take_digit(&index, 3), tiling = take_digit(&index, GENERIC_MMA_TILINGS);
    struct problem p = sample_problem(direction, type, true, 8, 8);
    p.allow_tf32 = p.type == TYPE_FLOAT32;
    return sample_of(p, TILINGS + tiling, 1 + index);
}

uint32_t conv_generic_samples(const struct target *target)
{
    return VECTOR_SAMPLES + generic_mma_types(target) * MMA_SAMPLES;
}

struct generic_sample conv_generic_sample(uint32_t index)
{
    return index < VECTOR_SAMPLES ? vector_sample(index) : mma_sample(index - VECTOR_SAMPLES);
}
