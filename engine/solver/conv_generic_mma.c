/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_generic_mma.h"

#include "engine/solver/conv_generic_pack.h"
#include "engine/solver/conv_implicit_gemm_paths.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"
#include "engine/solver/split_reduce.h"

#include <string.h>

/* A part of a split sum has at least this number of products. */
#define PART_LEAST 512u
#define WORKSPACE_ALIGNMENT 256u

struct tiling {
    uint32_t m, n, k; /* k: of types with two bytes */
    uint32_t warps_m, warps_n, stages;
    uint32_t blocks; /* work groups that run at a time on a multiprocessor */
    double rate;     /* relative speed of products */
};

/* Matrix cores of one kind.  The rates are estimates, relative to the ones of conv_generic.c. */
struct cores {
    uint32_t wave;
    bool is_wide; /* wgmma */
    struct tiling tilings[GENERIC_MMA_TILINGS];
};

static const struct cores wgmma = { .wave = 32,
                                    .is_wide = true,
                                    .tilings = { { 128, 128, 64, 8, 1, 4, 1, 20 },
                                                 { 128, 64, 64, 8, 1, 4, 2, 16 },
                                                 { 64, 64, 64, 4, 1, 4, 3, 12 } } };
static const struct cores mma = { .wave = 32,
                                  .tilings = { { 128, 128, 32, 2, 2, 4, 2, 11 },
                                               { 128, 64, 32, 2, 2, 4, 3, 9 },
                                               { 64, 64, 32, 2, 2, 4, 4, 7 } } };
static const struct cores mfma = { .wave = 64,
                                   .tilings = { { 128, 128, 32, 2, 2, 2, 2, 7 },
                                                { 128, 64, 32, 2, 2, 2, 2, 6 },
                                                { 64, 64, 32, 2, 2, 2, 4, 5 } } };
/* An item has half as many registers. */
static const struct cores wmma = { .wave = 32,
                                   .tilings = { { 128, 128, 32, 4, 4, 2, 1, 4 },
                                                { 128, 64, 32, 4, 2, 2, 2, 3.5 },
                                                { 64, 64, 32, 2, 2, 2, 4, 3 } } };

static bool is_amd(const struct cores *cores) { return cores == &mfma || cores == &wmma; }

static const struct cores *cores_of(const struct target *target, uint32_t type)
{
    switch (igemm_amd_cores(target)) {
    case CORES_NONE: break;
    case CORES_MFMA: return type == TYPE_FLOAT32 ? NULL : &mfma;
    default: return type == TYPE_FLOAT32 ? NULL : &wmma;
    }
    if (target_capability(target) < 80)
        return NULL;
    /* wgmma reads TF32 only from tiles that bulk copies have rounded. */
    return strcmp(target->text, "sm_90a") == 0 && type != TYPE_FLOAT32 ? &wgmma : &mma;
}

uint32_t generic_mma_types(const struct target *target)
{
    return cores_of(target, TYPE_FLOAT32) ? 3 : cores_of(target, TYPE_FLOAT16) ? 2 : 0;
}

bool generic_mma_applies(const struct problem *p, const struct target *target)
{
    return (p->type != TYPE_FLOAT32 || p->allow_tf32) && cores_of(target, p->type) &&
           generic_can_pack(p, target);
}

static struct tiling tiling_of(const struct problem *p, const struct target *target,
                               uint32_t tiling)
{
    struct tiling t = cores_of(target, p->type)->tilings[tiling];
    if (p->type == TYPE_FLOAT32)
        t.k /= 2;
    return t;
}

static uint32_t taps_of_class(uint32_t filter, uint32_t stride, uint32_t dilation)
{
    return (uint32_t)ceil_div(filter, geometry_tap_step(stride, dilation));
}

/* Returns the number of tiles along the reduction, at most. */
static uint64_t steps_of(const struct problem *p, uint32_t tile_k)
{
    struct extent f = p->filter, s = p->stride, d = p->dilation;
    if (p->direction == DIRECTION_FORWARD)
        return (uint64_t)f.d * f.h * f.w * ceil_div(p->c / p->groups, tile_k);
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS)
        return ceil_div(generic_product_of(p).depth, tile_k);
    return (uint64_t)taps_of_class(f.d, s.d, d.d) * taps_of_class(f.h, s.h, d.h) *
           taps_of_class(f.w, s.w, d.w) * ceil_div(p->k / p->groups, tile_k);
}

struct generic_shape generic_mma_shape(const struct problem *p, const struct target *target,
                                       uint32_t tiling)
{
    struct problem packed = generic_packed_problem(p);
    struct generic_product product = generic_product_of(&packed);
    struct tiling t = tiling_of(p, target, tiling);
    bool is_weights = p->direction == DIRECTION_BACKWARD_WEIGHTS;
    uint64_t rows = is_weights ? product.channels : product.others;
    uint64_t columns = is_weights ? product.others : product.channels;
    return (struct generic_shape){
        .m = t.m,
        .n = t.n,
        .items = cores_of(target, p->type)->wave * t.warps_m * t.warps_n,
        .tiles = ceil_div(rows, t.m) * ceil_div(columns, t.n) * generic_classes(p) * p->groups,
        .depth = steps_of(&packed, t.k) * t.k,
        .part_least = PART_LEAST,
        .resident = t.blocks,
        .rate = t.rate,
        .traffic = 2 * generic_operand_bytes(p),
    };
}

/* Where the product writes its result. */
enum output {
    OUTPUT_DIRECT, /* to the result, which equals its packed form */
    OUTPUT_PLAIN,  /* to the result, in the caller's layout */
    OUTPUT_SUMS,   /* packed, as fp32 parts in the workspace */
};

static const enum argument_kind tensors[][3] = {
    /* left, right, result */
    [DIRECTION_FORWARD] = { ARGUMENT_X, ARGUMENT_W, ARGUMENT_Y },
    [DIRECTION_BACKWARD_DATA] = { ARGUMENT_Y, ARGUMENT_W, ARGUMENT_X },
    [DIRECTION_BACKWARD_WEIGHTS] = { ARGUMENT_Y, ARGUMENT_X, ARGUMENT_W },
};

static enum output output_of(const struct problem *p, uint32_t splits)
{
    if (splits > 1)
        return OUTPUT_SUMS;
    if (generic_is_packed(p, tensors[p->direction][2]))
        return OUTPUT_DIRECT;
    return p->direction == DIRECTION_BACKWARD_WEIGHTS ? OUTPUT_SUMS : OUTPUT_PLAIN;
}

static uint64_t part_elements(const struct problem *p)
{
    struct problem packed = generic_packed_problem(p);
    return geometry_output_elements(&packed);
}

/* The workspace: packed operands, the parts and, if it must be unpacked, their sum. */
struct workspace {
    uint64_t parts, sum, size;
};

static struct workspace workspace_of(const struct problem *p, uint32_t splits)
{
    struct workspace w = { .parts = generic_operand_bytes(p) };
    uint64_t part = part_elements(p) * sizeof(float);
    uint64_t parts = output_of(p, splits) == OUTPUT_SUMS ? splits * part : 0;
    w.sum = ceil_div(w.parts + parts, WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT;
    w.size = w.parts + parts;
    if (splits > 1 && !generic_is_packed(p, tensors[p->direction][2]))
        w.size = w.sum + part;
    return w;
}

uint64_t generic_mma_workspace(const struct problem *p, uint32_t splits)
{
    return workspace_of(p, splits).size;
}

static uint32_t shared_bytes(const struct problem *p, const struct tiling *t, enum output output)
{
    uint32_t element = (uint32_t)data_type_size((enum data_type)p->type);
    uint32_t operands = t->stages * (t->m + t->n) * t->k * element;
    bool is_staged = output == OUTPUT_DIRECT && p->type != TYPE_FLOAT32;
    uint32_t result = is_staged ? t->m * t->n * element : 0;
    return operands > result ? operands : result;
}

static void write_options(const struct problem *p, const struct target *target,
                          const struct tiling *t, enum output output,
                          struct solution_program *program)
{
    struct option_text text = { program->options, sizeof(program->options), 0 };
    const struct cores *cores = cores_of(target, p->type);
    option_define(&text, "DIRECTION", p->direction);
    option_define(&text, "TYPE", p->type);
    option_define(&text, "TILE_M", t->m);
    option_define(&text, "TILE_N", t->n);
    option_define(&text, "TILE_K", t->k);
    option_define(&text, "WARPS_M", t->warps_m);
    option_define(&text, "WARPS_N", t->warps_n);
    option_define(&text, "STAGES", t->stages);
    option_define(&text, "WIDE", cores->is_wide ? t->n / t->warps_n : 0);
    option_define(&text, "PARTIAL", output == OUTPUT_SUMS);
    option_define(&text, "PLAIN", output == OUTPUT_PLAIN);
    if (is_amd(cores)) {
        option_define(&text, "CORES", igemm_amd_cores(target));
        option_define(&text, "PAIRS", igemm_amd_takes_pairs(target, p->type));
        option_define(&text, "TILES_BYTES", shared_bytes(p, t, output));
    } else {
        option_define(&text, "BLOCKS", t->blocks);
    }
}

static const char *const header_names[] = {
    "kiln/prelude.h",        "kiln/conv_view.h",        "kiln/conv_sizes.h",
    "kiln/matrix_cores.h",   "kiln/matrix_cores_amd.h", "kiln/wide_products.h",
    "kiln/conv_mma_place.h", "kiln/conv_mma_result.h",  "kiln/conv_implicit_gemm_mma.cl"
};
static const char *const kernel_names[] = { "conv_generic_mma_forward",
                                            "conv_generic_mma_backward_data",
                                            "conv_generic_mma_backward_weights" };
static struct solution_program program_without_options(void)
{
    return (struct solution_program){
        .name = "conv_generic_mma.cl",
        .source = bytes_of(kernels_conv_generic_mma, kernels_conv_generic_mma_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size),
                          bytes_of(kernels_conv_view, kernels_conv_view_size),
                          bytes_of(kernels_conv_sizes, kernels_conv_sizes_size),
                          bytes_of(kernels_matrix_cores, kernels_matrix_cores_size),
                          bytes_of(kernels_matrix_cores_amd, kernels_matrix_cores_amd_size),
                          bytes_of(kernels_wide_products, kernels_wide_products_size),
                          bytes_of(kernels_conv_mma_place, kernels_conv_mma_place_size),
                          bytes_of(kernels_conv_mma_result, kernels_conv_mma_result_size),
                          bytes_of(kernels_conv_implicit_gemm_mma,
                                   kernels_conv_implicit_gemm_mma_size) },
        .header_count = 9,
    };
}

/* Adds the program and the kernel, without its first three arguments. */
static struct solution_kernel *add_product(const struct problem *p, const struct target *target,
                                           uint32_t tiling, uint32_t splits,
                                           struct solution *solution)
{
    struct problem packed = generic_packed_problem(p);
    struct tiling t = tiling_of(p, target, tiling);
    struct generic_shape shape = generic_mma_shape(p, target, tiling);
    enum output output = output_of(p, splits);
    struct solution_kernel *kernel = &solution->kernels[solution->kernel_count++];
    *kernel = (struct solution_kernel){
        .name = kernel_names[p->direction],
        .program = solution->program_count++,
        .grid = { (uint32_t)(shape.tiles * splits), 1, 1 },
        .group = { shape.items, 1, 1 },
        .shared_bytes = is_amd(cores_of(target, p->type)) ? 0 : shared_bytes(p, &t, output),
        .argument_count = 3,
    };
    solution->programs[kernel->program] = program_without_options();
    write_options(p, target, &t, output, &solution->programs[kernel->program]);
    generic_add_number(kernel, (uint32_t)ceil_div(shape.depth / t.k, splits));
    generic_add_sizes(kernel, &packed);
    if (output == OUTPUT_PLAIN) {
        uint32_t channels = p->direction == DIRECTION_FORWARD ? p->k : p->c;
        generic_add_number(kernel, channels / p->groups);
        generic_add_number(kernel, p->x_layout == LAYOUT_CHANNELS_LAST);
    }
    return kernel;
}

/* Adds the kernels that turn the parts into the result. */
static void add_parts(const struct problem *p, uint32_t splits, struct solution *solution)
{
    enum argument_kind result = tensors[p->direction][2];
    bool is_packed = generic_is_packed(p, result);
    struct workspace w = workspace_of(p, splits);
    const struct solution_argument parts = { ARGUMENT_WORKSPACE, w.parts };
    const struct solution_argument sum = { ARGUMENT_WORKSPACE, w.sum };
    const struct split_reduce reduce = { .type = is_packed ? p->type : TYPE_FLOAT32,
                                         .parts = parts,
                                         .output = is_packed
                                                       ? (struct solution_argument){ result, 0 }
                                                       : sum,
                                         .elements = part_elements(p),
                                         .splits = splits };
    if (splits > 1)
        split_reduce_add(&reduce, solution);
    if (!is_packed)
        generic_unpack_sums(p, splits > 1 ? sum : parts, result, solution);
}

void generic_mma_solve(const struct problem *p, const struct target *target, uint32_t tiling,
                       uint32_t splits, struct solution *solution)
{
    const enum argument_kind *kinds = tensors[p->direction];
    const struct solution_argument parts = { ARGUMENT_WORKSPACE, workspace_of(p, splits).parts };
    bool has_parts = output_of(p, splits) == OUTPUT_SUMS;
    struct solution_argument operands[2];
    generic_pack_operands(p, kinds, solution, operands);
    struct solution_kernel *product = add_product(p, target, tiling, splits, solution);
    product->arguments[0] = operands[0];
    product->arguments[1] = operands[1];
    product->arguments[2] = has_parts ? parts : (struct solution_argument){ kinds[2], 0 };
    if (has_parts)
        add_parts(p, splits, solution);
}
