/* SPDX-License-Identifier: MIT */
/*
 * ConvGeneric (kernels/conv_generic.cl): a matrix product, divided as in
 * conv_implicit_gemm_vector.c, whose sizes are kernel arguments.  A program depends on the
 * direction, the type, the layout, the tiling, and whether the sum is split; not on the problem's
 * sizes.
 */
#include "engine/solver/conv_generic.h"

#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"
#include "engine/solver/split_reduce.h"

#include <math.h>

#define WORKSPACE_MAX (512ull << 20)
/* Kernels mark taps that meet padding by a mask, with one bit for each row, column and plane of
 * taps. */
#define TAP_BITS_MAX 31u
#define CLASSES_MAX 4096u

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
    [TILING] = { "tiling", PERF_VALUES(0, 1, 2) },
    [SPLITS] = { "splits", PERF_VALUES(1, 2, 4, 8, 16, 32, 64) },
};

static uint64_t classes_of(const struct problem *p)
{
    return p->direction != DIRECTION_BACKWARD_DATA
               ? 1
               : (uint64_t)p->stride.d * p->stride.h * p->stride.w;
}

static bool has_one_layout(const struct problem *p)
{
    return p->x_layout == p->w_layout && p->x_layout == p->y_layout;
}

static bool strides_are_small(const struct problem *p)
{
    return p->stride.d <= CLASSES_MAX && p->stride.h <= CLASSES_MAX && p->stride.w <= CLASSES_MAX &&
           classes_of(p) <= CLASSES_MAX;
}

static uint32_t rows_of(const struct problem *p)
{
    return (p->direction == DIRECTION_BACKWARD_DATA ? p->c : p->k) / p->groups;
}

/* Returns the columns of the class with the most columns. */
static uint64_t columns_of(const struct problem *p)
{
    struct extent out = problem_output(p), f = p->filter;
    if (p->direction == DIRECTION_FORWARD)
        return (uint64_t)p->n * out.d * out.h * out.w;
    if (p->direction == DIRECTION_BACKWARD_DATA)
        return p->n * ceil_div(p->in.d, p->stride.d) * ceil_div(p->in.h, p->stride.h) *
               ceil_div(p->in.w, p->stride.w);
    return (uint64_t)(p->c / p->groups) * f.d * f.h * f.w;
}

/* Returns the number of products that are summed for one result, at most. */
static uint64_t depth_of(const struct problem *p)
{
    struct extent out = problem_output(p), f = p->filter;
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS)
        return (uint64_t)p->n * out.d * out.h * out.w;
    return ((uint64_t)(p->direction == DIRECTION_FORWARD ? p->c : p->k) / p->groups) * f.d * f.h *
           f.w;
}

static uint32_t items_of(const struct tiling *t) { return t->m / t->item_m * (t->n / t->item_n); }

static uint64_t tiles_of(const struct problem *p, const struct tiling *t)
{
    return ceil_div(rows_of(p), t->m) * ceil_div(columns_of(p), t->n) * classes_of(p) * p->groups;
}

static uint64_t parts_bytes(const struct problem *p, uint32_t splits)
{
    return splits > 1 ? geometry_output_elements(p) * splits * sizeof(float) : 0;
}

static bool fits(const struct problem *p, const struct target *target, const struct tiling *t,
                 uint32_t splits)
{
    return geometry_is_launchable(target, tiles_of(p, t) * splits, items_of(t)) &&
           parts_bytes(p, splits) <= WORKSPACE_MAX;
}

static bool applies(const struct problem *p, const struct target *target)
{
    uint64_t bits = (uint64_t)p->filter.d + p->filter.h + p->filter.w;
    if (p->type == TYPE_INT8 || !has_one_layout(p) || !strides_are_small(p) ||
        (p->direction != DIRECTION_BACKWARD_WEIGHTS && bits > TAP_BITS_MAX))
        return false;
    return geometry_fits_30_bits(p) && fits(p, target, &tilings[0], 1);
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
    return fits(p, target, &tilings[config->values[TILING]], config->values[SPLITS]);
}

/* Work groups that fill a large GPU: two for each of 132 compute units. */
#define GROUPS_WANTED 264u
/* A part of a split sum has at least this number of products. */
#define PART_LEAST 256u

static uint32_t splits_for(const struct problem *p, const struct target *target,
                           const struct tiling *t)
{
    uint64_t tiles = tiles_of(p, t), depth = depth_of(p);
    uint32_t splits = 1;
    while (splits < 64 && tiles * splits * 2 <= GROUPS_WANTED &&
           depth >= (uint64_t)splits * 2 * PART_LEAST && fits(p, target, t, splits * 2))
        splits *= 2;
    return splits;
}

/* Returns a number proportional to the time of the product, if compute units do not wait for
 * memory. */
static double estimate(const struct problem *p, const struct tiling *t, uint32_t splits)
{
    double rounds = ceil((double)tiles_of(p, t) * splits / GROUPS_WANTED);
    return rounds * t->m * t->n * ((double)depth_of(p) / splits) / t->rate;
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    double least = INFINITY;
    *ret_config = (struct perf_config){ .count = AXES, .values = { 0, 1 } };
    for (size_t i = 0; i < TILINGS; i++) {
        if (!fits(p, target, &tilings[i], 1))
            continue;
        uint32_t splits = splits_for(p, target, &tilings[i]);
        double cost = estimate(p, &tilings[i], splits);
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

static void add_argument(struct solution_kernel *kernel, enum argument_kind kind, uint64_t value)
{
    kernel->arguments[kernel->argument_count++] = (struct solution_argument){ kind, value };
}

static void add_number(struct solution_kernel *kernel, uint32_t value)
{
    add_argument(kernel, ARGUMENT_U32, value);
}

static void add_extent(struct solution_kernel *kernel, struct extent e)
{
    add_number(kernel, e.d);
    add_number(kernel, e.h);
    add_number(kernel, e.w);
}

/* The quotient of a and |size| is a * factor >> shift, for a below 2^31: |factor| is at most
 * size / 2^(shift - 31) too large, relative to 2^shift / size. */
struct divisor {
    uint32_t factor, shift;
};

static struct divisor divisor_of(uint32_t size)
{
    uint32_t bits = 0;
    while ((uint64_t)1 << bits < size)
        bits++;
    return (struct divisor){ (uint32_t)ceil_div((uint64_t)1 << (31 + bits), size), 31 + bits };
}

static void add_divisors(struct solution_kernel *kernel, struct extent out)
{
    struct divisor d = divisor_of(out.d), h = divisor_of(out.h), w = divisor_of(out.w);
    add_extent(kernel, (struct extent){ d.factor, h.factor, w.factor });
    add_number(kernel, d.shift | h.shift << 8 | w.shift << 16);
}

static void add_sizes(struct solution_kernel *kernel, const struct problem *p)
{
    add_number(kernel, p->n);
    add_number(kernel, p->c / p->groups);
    add_number(kernel, p->k / p->groups);
    add_number(kernel, p->groups);
    add_extent(kernel, p->in);
    add_extent(kernel, problem_output(p));
    add_extent(kernel, p->filter);
    add_extent(kernel, p->pad);
    add_extent(kernel, p->stride);
    add_extent(kernel, p->dilation);
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS)
        add_divisors(kernel, problem_output(p));
    else
        add_extent(kernel, (struct extent){ geometry_tap_step(p->stride.d, p->dilation.d),
                                            geometry_tap_step(p->stride.h, p->dilation.h),
                                            geometry_tap_step(p->stride.w, p->dilation.w) });
}

static const char *const header_names[] = { "kiln/prelude.h", "kiln/conv_view.h",
                                            "kiln/igemm_vector_fetch.h" };
static const char *const kernel_names[] = { "conv_generic_forward", "conv_generic_backward_data",
                                            "conv_generic_backward_weights" };
static const enum argument_kind operands[][3] = {
    /* A, B, result */
    [DIRECTION_FORWARD] = { ARGUMENT_W, ARGUMENT_X, ARGUMENT_Y },
    [DIRECTION_BACKWARD_DATA] = { ARGUMENT_W, ARGUMENT_Y, ARGUMENT_X },
    [DIRECTION_BACKWARD_WEIGHTS] = { ARGUMENT_Y, ARGUMENT_X, ARGUMENT_W },
};

static void add_product(const struct problem *p, const struct tiling *t, uint32_t splits,
                        struct solution *solution)
{
    struct solution_program *program = &solution->programs[solution->program_count++];
    struct solution_kernel *kernel = &solution->kernels[solution->kernel_count++];
    *program = (struct solution_program){
        .name = "conv_generic.cl",
        .source = bytes_of(kernels_conv_generic, kernels_conv_generic_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size),
                          bytes_of(kernels_conv_view, kernels_conv_view_size),
                          bytes_of(kernels_igemm_vector_fetch, kernels_igemm_vector_fetch_size) },
        .header_count = 3,
    };
    write_options(p, t, splits, program);
    *kernel = (struct solution_kernel){
        .name = kernel_names[p->direction],
        .grid = { (uint32_t)(tiles_of(p, t) * splits), 1, 1 },
        .group = { items_of(t), 1, 1 },
    };
    add_argument(kernel, operands[p->direction][0], 0);
    add_argument(kernel, operands[p->direction][1], 0);
    add_argument(kernel, splits > 1 ? ARGUMENT_WORKSPACE : operands[p->direction][2], 0);
    add_number(kernel, (uint32_t)ceil_div(columns_of(p), t->n));
    add_number(kernel, splits);
    add_sizes(kernel, p);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)target;
    (void)err;
    uint32_t splits = config->values[SPLITS];
    const struct split_reduce reduce = { .type = p->type,
                                         .parts = { ARGUMENT_WORKSPACE, 0 },
                                         .output = { operands[p->direction][2], 0 },
                                         .elements = geometry_output_elements(p),
                                         .splits = splits };
    *ret_solution = (struct solution){ .workspace_size = parts_bytes(p, splits) };
    add_product(p, &tilings[config->values[TILING]], splits, ret_solution);
    if (splits > 1)
        split_reduce_add(&reduce, ret_solution);
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

struct generic_sample conv_generic_sample(uint32_t index)
{
    uint32_t direction = take_digit(&index, 3), type = take_digit(&index, 3);
    uint32_t layout = take_digit(&index, 3), tiling = take_digit(&index, TILINGS);
    /* The program that adds up the parts depends on their number, and on the result's size. */
    uint32_t splits = index < 7 ? 1u << index : 2, side = index < 7 ? 8 : 256;
    uint32_t channels = layout == 2 ? 4 : 3;
    struct generic_sample sample = {
        .problem = { .direction = direction,
                     .spatial_dims = 2,
                     .type = type,
                     .x_layout = layout > 0,
                     .w_layout = layout > 0,
                     .y_layout = layout > 0,
                     .n = 1,
                     .c = channels,
                     .k = channels,
                     .groups = 1,
                     .in = { 1, side, side },
                     .filter = { 1, 3, 3 },
                     .pad = { 0, 1, 1 },
                     .stride = { 1, 1, 1 },
                     .dilation = { 1, 1, 1 } },
    };
    const struct perf_config config = { AXES, { (uint16_t)tiling, (uint16_t)splits } };
    perf_config_write(&config, sample.config);
    return sample;
}
