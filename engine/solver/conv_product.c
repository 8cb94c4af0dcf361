/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_product.h"

#include "engine/solver/conv_bulk.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"

#define SIGNALS 16u /* bytes for the barriers of a stage */

static const char *const header_names[] = { "kiln/prelude.h",          "kiln/matrix_cores.h",
                                            "kiln/matrix_cores_amd.h", "kiln/conv_view.h",
                                            "kiln/wide_products.h",    "kiln/conv_mma_place.h",
                                            "kiln/conv_mma_result.h" };
static const char *const bulk_header_names[] = { "kiln/prelude.h",        "kiln/matrix_cores.h",
                                                 "kiln/conv_view.h",      "kiln/wide_products.h",
                                                 "kiln/conv_mma_place.h", "kiln/conv_mma_result.h",
                                                 "kiln/bulk_copies.h" };
static const char *const bulk_kernel_names[] = { "conv_implicit_gemm_bulk_forward",
                                                 "conv_implicit_gemm_bulk_backward_data",
                                                 "conv_implicit_gemm_bulk_backward_weights" };
static const char *const kernel_names[] = { "conv_implicit_gemm_mma_forward",
                                            "conv_implicit_gemm_mma_backward_data",
                                            "conv_implicit_gemm_mma_backward_weights" };

#define FILTER_SUM_MAX 31u
#define CHANNELS_FAVOURED 4u
#define ROWS_FAVOURED 8u /* with fewer channels of y, packing is not worth it */
#define SHORT_SUM_ELEMENTS_MAX (1u << 21)
/* Number of work groups needed to fill any GPU: none runs more at a time. */
#define SPLIT_GROUPS_MAX 2048u
#define TILE_M_MIN 64u
#define TILE_N_MIN 32u

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static bool is_of_type(const struct problem *p, bool has_tf32)
{
    if (p->type == TYPE_FLOAT32)
        return has_tf32 && p->allow_tf32;
    return p->type == TYPE_FLOAT16 || p->type == TYPE_BFLOAT16;
}

bool product_covers(const struct problem *p, bool has_tf32, struct packing *ret_packing)
{
    if (!is_of_type(p, has_tf32) || !packing_of(p, ret_packing))
        return false;
    struct extent filter = ret_packing->problem.filter;
    return filter.d + filter.h + filter.w <= FILTER_SUM_MAX;
}

/* Returns true for backward data of a small x with one channel of y in each group.  A sum then has
 * one product for each tap, but the channel is padded to tile_k products.  The kernels that pack
 * the tensors take longer than the whole vector path. */
static bool is_short_sum(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_DATA && p->k == p->groups &&
           problem_x_elements(p) <= SHORT_SUM_ELEMENTS_MAX;
}

/* Returns true for backward weights with one pixel and few channels of y in each image, as in the
 * last layer of a discriminator.  Packing y and w would take longer than the whole vector path,
 * which reads x once. */
static bool is_short_of_rows(const struct problem *p)
{
    struct extent out = problem_output(p);
    return p->direction == DIRECTION_BACKWARD_WEIGHTS && p->groups == 1 && p->k < ROWS_FAVOURED &&
           (uint64_t)out.d * out.h * out.w == 1 && problem_x_elements(p) <= SHORT_SUM_ELEMENTS_MAX;
}

bool product_is_favoured(const struct problem *p)
{
    if (is_short_sum(p) || is_short_of_rows(p))
        return false;
    return p->groups == 1 ||
           (p->c / p->groups >= CHANNELS_FAVOURED && p->k / p->groups >= CHANNELS_FAVOURED);
}

static uint32_t taps_of_residue(uint32_t filter, uint32_t stride, uint32_t dilation)
{
    return divide_up(filter, geometry_tap_step(stride, dilation));
}

/*
 * The reduction is padded to whole tiles for each tap:
 *
 *     forward           taps * ceil(c / tile_k)
 *     backward data     (taps that meet a residue) * ceil(k / tile_k)
 *     backward weights  ceil(pixels of y / tile_k)
 *
 * In backward data, the rows are the pixels of x with one residue modulo the strides.  With planes
 * (channels first), each image's pixels are padded to whole runs (RUN_BYTES).
 */
struct product product_of(const struct packing *packing, uint32_t tile_k)
{
    const struct problem *q = &packing->problem;
    struct extent out = packing->out, s = q->stride, f = q->filter, dilation = q->dilation;
    uint32_t c = q->c / q->groups, k = q->k / q->groups;
    uint32_t out_pixels = q->n * out.d * out.h * out.w;
    uint32_t run = RUN_BYTES / (uint32_t)data_type_size((enum data_type)q->type);
    uint32_t runs = divide_up(out.d * out.h * out.w, run); /* runs of an image */
    if (packing->has_planes && q->direction == DIRECTION_BACKWARD_WEIGHTS)
        return (struct product){ k, c, q->n * runs, 1, 1 };
    if (packing->has_planes) {
        bool is_forward = q->direction == DIRECTION_FORWARD;
        return (struct product){ (uint64_t)q->n * runs * run, is_forward ? k : c,
                                 divide_up(is_forward ? c : k, tile_k), 1, 1 };
    }
    if (q->direction == DIRECTION_FORWARD)
        return (struct product){ out_pixels, k, f.d * f.h * f.w * divide_up(c, tile_k), 1, 1 };
    if (q->direction == DIRECTION_BACKWARD_WEIGHTS)
        return (struct product){ k, f.d * f.h * f.w * c, divide_up(out_pixels, tile_k), 1, 1 };
    uint32_t met = taps_of_residue(f.d, s.d, dilation.d) * taps_of_residue(f.h, s.h, dilation.h) *
                   taps_of_residue(f.w, s.w, dilation.w);
    return (struct product){ .rows = (uint64_t)q->n * divide_up(q->in.d, s.d) *
                                     divide_up(q->in.h, s.h) * divide_up(q->in.w, s.w),
                             .columns = c,
                             .tiles = met * divide_up(k, tile_k),
                             .residues = s.d * s.h * s.w,
                             .residues_busy = least(geometry_tap_step(s.d, dilation.d), f.d) *
                                              least(geometry_tap_step(s.h, dilation.h), f.h) *
                                              least(geometry_tap_step(s.w, dilation.w), f.w) };
}

void product_slice(const struct product *product, uint32_t split, struct product_tiling *ret)
{
    uint32_t tiles = product->tiles ? product->tiles : 1;
    ret->slice = divide_up(tiles, split);
    ret->slices = divide_up(tiles, ret->slice);
}

uint32_t product_tile_bytes(const struct product_tiling *t, uint32_t stages)
{
    uint32_t operands = stages * (t->tile_m + t->tile_n) * t->tile_k * t->element;
    bool has_boxes = t->is_persistent && !t->has_result_planes;
    bool is_staged = t->slices == 1 && (t->element < sizeof(float) || has_boxes);
    uint32_t result = is_staged ? t->tile_m * t->tile_n * t->element : 0;
    uint32_t signals = t->is_bulk ? stages * SIGNALS : 0;
    if (t->turns_right) /* two buffers for the transposed operand */
        operands += 2 * t->tile_n * t->tile_k * t->element;
    if (t->is_persistent) /* the result has its own space */
        return operands + result + signals;
    return (operands > result ? operands : result) + signals;
}

static uint64_t group_rows(const struct product *product, const struct product_tiling *t)
{
    uint64_t band = t->tile_m * t->band;
    return (product->rows + band - 1) / band * t->band;
}

uint64_t product_groups(const struct packing *packing, const struct product *product,
                        const struct product_tiling *t)
{
    return group_rows(product, t) * divide_up((uint32_t)product->columns, t->tile_n) *
           product->residues * packing->problem.groups * t->slices;
}

bool product_is_redundant(const struct packing *packing, const struct product *product,
                          const struct product_tiling *t, uint32_t split)
{
    if ((t->tile_m > TILE_M_MIN && product->rows * 2 <= t->tile_m) ||
        (t->tile_n > TILE_N_MIN && product->columns * 2 <= t->tile_n))
        return true;
    return t->slices != split ||
           (split > 1 && product_groups(packing, product, t) / t->band > SPLIT_GROUPS_MAX);
}

static void write_options(const struct packing *packing, const struct product_tiling *t,
                          struct solution_program *program)
{
    const struct problem *q = &packing->problem;
    struct option_text text = { program->options, sizeof(program->options), 0 };
    option_define(&text, "DIRECTION", q->direction);
    option_define(&text, "TYPE", q->type);
    option_define(&text, "C", q->c / q->groups);
    option_define(&text, "K", q->k / q->groups);
    option_define(&text, "GROUPS", q->groups);
    option_define_extent(&text, "IN", q->in);
    option_define_extent(&text, "OUT", packing->out);
    option_define_extent(&text, "FILTER", q->filter);
    option_define_extent(&text, "PAD", q->pad);
    option_define_extent(&text, "STRIDE", q->stride);
    option_define_extent(&text, "DILATION", q->dilation);
    struct extent steps = { geometry_tap_step(q->stride.d, q->dilation.d),
                            geometry_tap_step(q->stride.h, q->dilation.h),
                            geometry_tap_step(q->stride.w, q->dilation.w) };
    option_define_extent(&text, "TAP_STEP", steps);
    option_define(&text, "X_PIXEL", packing->x_pixel);
    option_define(&text, "TILE_M", t->tile_m);
    option_define(&text, "TILE_N", t->tile_n);
    option_define(&text, "TILE_K", t->tile_k);
    option_define(&text, "WARPS_M", t->warps_m);
    option_define(&text, "WARPS_N", t->warps_n);
    option_define(&text, "STAGES", t->stages);
    option_define(&text, "WIDE", t->is_wide ? t->tile_n / t->warps_n : 0);
    option_define(&text, "BAND", t->band);
    option_define(&text, "PARTIAL", t->slices > 1);
    if (t->is_bulk) {
        option_define(&text, "FLAT", bulk_is_flat(packing));
        option_define(&text, "LASTING", t->is_persistent);
        if (packing->has_planes)
            option_define(&text, "PLANES", 1);
        if (packing->has_result_planes)
            option_define(&text, "RESULT_PLANES", 1);
    }
}

static void add_argument(struct solution_kernel *kernel, struct solution_argument argument)
{
    kernel->arguments[kernel->argument_count++] = argument;
}

static struct solution_program bulk_program(void)
{
    return (struct solution_program){
        .name = "conv_implicit_gemm_bulk.cl",
        .source = bytes_of(kernels_conv_implicit_gemm_bulk, kernels_conv_implicit_gemm_bulk_size),
        .header_names = bulk_header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size),
                          bytes_of(kernels_matrix_cores, kernels_matrix_cores_size),
                          bytes_of(kernels_conv_view, kernels_conv_view_size),
                          bytes_of(kernels_wide_products, kernels_wide_products_size),
                          bytes_of(kernels_conv_mma_place, kernels_conv_mma_place_size),
                          bytes_of(kernels_conv_mma_result, kernels_conv_mma_result_size),
                          bytes_of(kernels_bulk_copies, kernels_bulk_copies_size) },
        .header_count = 7,
    };
}

static struct solution_program mma_program(void)
{
    return (struct solution_program){
        .name = "conv_implicit_gemm_mma.cl",
        .source = bytes_of(kernels_conv_implicit_gemm_mma, kernels_conv_implicit_gemm_mma_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size),
                          bytes_of(kernels_matrix_cores, kernels_matrix_cores_size),
                          bytes_of(kernels_matrix_cores_amd, kernels_matrix_cores_amd_size),
                          bytes_of(kernels_conv_view, kernels_conv_view_size),
                          bytes_of(kernels_wide_products, kernels_wide_products_size),
                          bytes_of(kernels_conv_mma_place, kernels_conv_mma_place_size),
                          bytes_of(kernels_conv_mma_result, kernels_conv_mma_result_size) },
        .header_count = 7,
    };
}

static struct solution_program *add_product(const struct packing_plan *plan,
                                            const struct product_tiling *t)
{
    /* Left operand, right operand, result. */
    static const int order[][3] = { { ARGUMENT_X, ARGUMENT_W, ARGUMENT_Y },
                                    { ARGUMENT_Y, ARGUMENT_W, ARGUMENT_X },
                                    { ARGUMENT_Y, ARGUMENT_X, ARGUMENT_W } };
    const struct packing *packing = plan->packing;
    struct solution *s = plan->solution;
    uint32_t direction = packing->problem.direction;
    struct product product = product_of(packing, t->tile_k);
    uint32_t tiles = (uint32_t)product_groups(packing, &product, t);
    struct solution_program *program = &s->programs[s->program_count];
    struct solution_kernel *kernel = &s->kernels[s->kernel_count++];
    *program = t->is_bulk ? bulk_program() : mma_program();
    write_options(packing, t, program);
    *kernel = (struct solution_kernel){
        .name = t->is_bulk ? bulk_kernel_names[direction] : kernel_names[direction],
        .program = s->program_count++,
        .grid = { t->groups ? t->groups : tiles, 1, 1 },
        .group = { t->threads, 1, 1 },
        .shared_bytes = t->shared,
    };
    if (t->is_bulk)
        bulk_arguments(plan, t, kernel);
    for (int i = t->is_bulk ? 2 : 0; i < 3; i++) {
        if (bulk_stores_result(packing, t))
            bulk_result(plan, order[direction][i], t, kernel);
        else
            add_argument(kernel, plan->tensors[order[direction][i]]);
    }
    add_argument(kernel, (struct solution_argument){ ARGUMENT_U32, packing->problem.n });
    add_argument(kernel, (struct solution_argument){ ARGUMENT_U32, t->slice });
    if (t->is_persistent) {
        add_argument(kernel, (struct solution_argument){ ARGUMENT_U32, tiles });
        add_argument(kernel, (struct solution_argument){ ARGUMENT_U32, t->groups });
    }
    return program;
}

struct solution_program *product_solve(const struct problem *problem,
                                       const struct product_tiling *t, struct solution *ret)
{
    struct packing packing;
    struct packing_plan plan = { .problem = problem, .packing = &packing, .solution = ret };
    *ret = (struct solution){ 0 };
    packing_of(problem, &packing);
    if (t->is_bulk) {
        bulk_adapt(problem, &packing);
        bulk_keep_result(problem, t, &packing);
    }
    packing_begin(&plan);
    if (t->slices > 1)
        packing_slice_result(&plan, t->slices);
    struct solution_program *program = add_product(&plan, t);
    packing_end(&plan, t->slices);
    return program;
}
