/* SPDX-License-Identifier: MIT */
/*
 * ConvImplicitGemm on the vector units (kernels/conv_implicit_gemm_vector.cl).
 *
 * The product has M rows, N columns and a sum over K:
 *
 *                       rows (M)   columns (N)          sum (K)
 *     forward           k          pixels of y          channels of x, taps
 *     backward data     c          pixels of x          channels of y, taps
 *     backward weights  k          channels of x, taps  pixels of y
 *
 * The product is divided at two levels, as in any fast matrix product.  A work group computes
 * TILE_M x TILE_N results: it copies TILE_K columns of one operand and TILE_K rows of the other
 * into shared memory, multiplies them, and continues with the next TILE_K.  Each such copy is a
 * step.  Up to STAGES steps are in shared memory, so copies overlap with products.  An item keeps
 * ITEM_M x ITEM_N sums in registers.  If M x N has too few tiles to fill the GPU, SPLITS work
 * groups share one tile's sum, and split_reduce.h adds up their parts.  The option PREPARE
 * rearranges the weights once, so that they are copied in 16-byte pieces.
 *
 * Example: if an item computes 8 x 4 results, a tile of 64 x 64 needs 128 items.  For each value of
 * K, an item loads 8 + 4 = 12 numbers from shared memory and does 32 multiply-adds.
 *
 * If the problem allows TF32 and the GPU has it, matrix cores compute the products of a warp.  The
 * 32 items of the warp then hold 8 x 4 sets of sums, so tiles have at least 8 items along M and 4
 * along N.
 *
 * The batch size, the number of splits and the order of the tiles are kernel arguments.  Configs
 * that differ only in these values share their programs.
 */
#include "engine/solver/conv_implicit_gemm_vector.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"
#include "engine/solver/split_reduce.h"

/* Bytes of shared memory: NVIDIA's limit for static arrays, AMD's limit for the LDS of a work
 * group, and OpenCL's guarantee. */
#define SHARED_NVIDIA 49152u
#define SHARED_AMDGPU 65536u
#define SHARED_OPENCL 32768u
/* Bytes of shared memory that every GPU with TF32 grants a work group. */
#define SHARED_DYNAMIC (99u * 1024)
#define WORKSPACE_MAX (512ull << 20)
#define ASYNC_FROM 80u /* the first compute capability (8.0) with cp.async */
#define TF32_FROM 80u
/* Maximum number of bits in the mask with which kernels mark taps that meet padding.  The mask has
 * one bit for each row, column and plane of taps. */
#define TAP_BITS_MAX 31u
#define PLACES_MAX 1024u
#define PREPARE_TAPS_MAX 128u
#define PREPARE_ITEMS 256u
#define PREPARE_ROWS 32u
#define ELEMENTS_MAX (1ull << 31)

#define SPLIT_VALUES 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512

#define SPACE(stages, prepare)                                                                  \
    {                                                                                           \
        [TILE_M] = { "tile_m", PERF_VALUES(16, 32, 64, 128, 256) },                             \
        [TILE_N] = { "tile_n", PERF_VALUES(16, 32, 64, 128, 256) },                             \
        [TILE_K] = { "tile_k", PERF_VALUES(4, 8, 16, 32) },                                     \
        [ITEM_M] = { "item_m", PERF_VALUES(4, 8, 16) },                                         \
        [ITEM_N] = { "item_n", PERF_VALUES(4, 8, 16) }, [STAGES] = { "stages", stages },        \
        [SPLITS] = { "splits", PERF_VALUES(SPLIT_VALUES) }, [PREPARE] = { "prepare", prepare }, \
        [ROWS_FIRST] = { "rows_first", PERF_VALUES(0, 1) },                                     \
    }

/* First index: whether copies bypass registers (cp.async).  Second: whether weights can be
 * rearranged. */
static const struct perf_axis spaces[2][2][AXES] = {
    { SPACE(PERF_VALUES(1, 2), PERF_VALUES(0)), SPACE(PERF_VALUES(1, 2), PERF_VALUES(0, 1)) },
    { SPACE(PERF_VALUES(2, 3, 4), PERF_VALUES(0)), SPACE(PERF_VALUES(2, 3, 4), PERF_VALUES(0, 1)) },
};

#define TF32_SPACE(prepare)                                                                     \
    {                                                                                           \
        [TILE_M] = { "tile_m", PERF_VALUES(32, 64, 128, 256) },                                 \
        [TILE_N] = { "tile_n", PERF_VALUES(32, 64, 128, 256) },                                 \
        [TILE_K] = { "tile_k", PERF_VALUES(8, 16, 32) },                                        \
        [ITEM_M] = { "item_m", PERF_VALUES(4, 8, 16) },                                         \
        [ITEM_N] = { "item_n", PERF_VALUES(8, 16) },                                            \
        [STAGES] = { "stages", PERF_VALUES(2, 3, 4, 5) },                                       \
        [SPLITS] = { "splits", PERF_VALUES(SPLIT_VALUES) }, [PREPARE] = { "prepare", prepare }, \
        [ROWS_FIRST] = { "rows_first", PERF_VALUES(0, 1) },                                     \
    }
static const struct perf_axis tf32_spaces[2][AXES] = { TF32_SPACE(PERF_VALUES(0)),
                                                       TF32_SPACE(PERF_VALUES(0, 1)) };

static uint32_t taps_of(const struct problem *p) { return p->filter.d * p->filter.h * p->filter.w; }

static uint32_t plane_of(struct extent e) { return e.d * e.h * e.w; }

static bool is_pointwise(const struct problem *p)
{
    return taps_of(p) == 1 && !p->pad.d && !p->pad.h && !p->pad.w;
}

/* Returns true for backward data if the filter is as large as the stride, so that x is divided into
 * patches, as in the first layer of a vision transformer.  Each pixel of x then gets one product
 * for each channel of y.  The convolution is one matrix product of w and y.  The rows of the
 * product are channels and taps, and w needs no rearranging.  If the pixels were instead divided
 * into classes modulo the stride, there would be stride x stride products, each with only as many
 * rows as an image has channels. */
static bool is_patches(const struct problem *p)
{
    struct extent f = p->filter, s = p->stride, out = problem_output(p);
    return p->direction == DIRECTION_BACKWARD_DATA && taps_of(p) > 1 && f.d == s.d && f.h == s.h &&
           f.w == s.w && !p->pad.d && !p->pad.h && !p->pad.w && p->dilation.d == 1 &&
           p->dilation.h == 1 && p->dilation.w == 1 && p->in.d == out.d * s.d &&
           p->in.h == out.h * s.h && p->in.w == out.w * s.w;
}

/*
 * Returns the number of classes of columns.  There is only 1 class, except for backward data with
 * strides.
 *
 * With strides, a pixel of x gets contributions only from taps t with (i + pad - t * dilation)
 * divisible by the stride.  Pixels with the same residue of i + pad share these taps, so each
 * residue is a class with its own sum.  Example: stride 2 and a 3x3 filter have 4 classes, with 4,
 * 2, 2 and 1 taps.  Without classes, three quarters of the products would be products with zero.
 */
static uint64_t classes_of(const struct problem *p)
{
    if (p->direction != DIRECTION_BACKWARD_DATA || is_pointwise(p) || is_patches(p))
        return 1;
    return (uint64_t)p->stride.d * p->stride.h * p->stride.w;
}

#define ROWS_FAVOURED 8u

/* With fewer rows than ROWS_FAVOURED, this path is favoured only for backward weights with one
 * pixel of y in each image.  In that case, reading x takes longer than the products of idle
 * rows. */
static bool is_favoured(const struct problem *p, const struct target *target)
{
    (void)target;
    uint32_t m = (p->direction == DIRECTION_BACKWARD_DATA ? p->c : p->k) / p->groups;
    return m >= ROWS_FAVOURED ||
           (p->direction == DIRECTION_BACKWARD_WEIGHTS && plane_of(problem_output(p)) == 1);
}

static uint64_t class_size(uint32_t residue, uint32_t in, uint32_t pad, uint32_t stride)
{
    uint32_t first = (residue + stride - pad % stride) % stride;
    return first < in ? (in - 1 - first) / stride + 1 : 0;
}

static void add_classes(const struct problem *p, struct vector_product *product)
{
    for (uint32_t d = 0; d < p->stride.d; d++)
        for (uint32_t h = 0; h < p->stride.h; h++)
            for (uint32_t w = 0; w < p->stride.w; w++)
                product->columns[product->classes++] =
                    p->n * class_size(d, p->in.d, p->pad.d, p->stride.d) *
                    class_size(h, p->in.h, p->pad.h, p->stride.h) *
                    class_size(w, p->in.w, p->pad.w, p->stride.w);
}

struct vector_product vector_product_of(const struct problem *p)
{
    uint32_t group_c = p->c / p->groups, group_k = p->k / p->groups;
    uint64_t out = (uint64_t)p->n * plane_of(problem_output(p));
    struct vector_product product = { .m = group_k, .channels = group_c, .taps = taps_of(p) };
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS) {
        product.columns[product.classes++] = (uint64_t)group_c * product.taps;
        product.steps_of_one = out;
        return product;
    }
    if (p->direction == DIRECTION_BACKWARD_DATA) {
        product.m = group_c;
        product.channels = group_k;
    }
    if (is_patches(p)) {
        product.m *= product.taps;
        product.taps = 1;
    }
    if (p->direction == DIRECTION_BACKWARD_DATA && !is_pointwise(p) && !is_patches(p))
        add_classes(p, &product);
    else
        product.columns[product.classes++] = out;
    product.steps_of_one = (uint64_t)product.channels * product.taps;
    return product;
}

uint64_t vector_column_tiles(const struct vector_product *product, uint32_t tile_n)
{
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < product->classes; i++)
        tiles += ceil_div(product->columns[i], tile_n);
    return tiles;
}

uint32_t vector_items(const uint16_t *v)
{
    return (uint32_t)(v[TILE_M] / v[ITEM_M]) * (v[TILE_N] / v[ITEM_N]);
}

uint64_t vector_tiles(const struct vector_product *product, uint32_t groups, const uint16_t *v)
{
    return ceil_div(product->m, v[TILE_M]) * vector_column_tiles(product, v[TILE_N]) * groups;
}

static bool smallest_is_launchable(const struct problem *p, const struct target *target)
{
    static const uint16_t smallest[AXES] = { 16, 64, 4, 4, 4 };
    if (target->family != TARGET_AMDGPU)
        return true;
    struct vector_product product = vector_product_of(p);
    return geometry_is_launchable(target, vector_tiles(&product, p->groups, smallest),
                                  vector_items(smallest));
}

static bool taps_are_masked(const struct problem *p)
{
    bool is_padded = p->pad.d || p->pad.h || p->pad.w;
    return p->direction == DIRECTION_FORWARD
               ? is_padded
               : p->direction == DIRECTION_BACKWARD_DATA && !is_patches(p);
}

static bool applies(const struct problem *p, const struct target *target)
{
    uint64_t bits = (uint64_t)p->filter.d + p->filter.h + p->filter.w;
    if (p->type == TYPE_INT8 || (taps_are_masked(p) && bits > TAP_BITS_MAX))
        return false;
    return classes_of(p) <= CLASSES_MAX && geometry_fits_30_bits(p) &&
           smallest_is_launchable(p, target);
}

bool igemm_vector_copies_are_async(enum data_type type, const struct target *target)
{
    return target_capability(target) >= ASYNC_FROM && type == TYPE_FLOAT32;
}

static bool copies_are_async(const struct problem *p, const struct target *target)
{
    return igemm_vector_copies_are_async((enum data_type)p->type, target);
}

/* Returns whether channels and taps are one flat dimension.  Otherwise, the channels of each tap
 * are padded to a multiple of |tile_k|.  A flat dimension is worth it if this padding would add
 * more than a quarter of the channels. */
static bool is_flat(const struct problem *p, uint32_t tile_k)
{
    uint64_t channels = p->c / p->groups;
    return p->direction == DIRECTION_FORWARD && taps_of(p) > 1 &&
           ceil_div(channels, tile_k) * tile_k * 4 > channels * 5 &&
           ceil_div(channels * taps_of(p), tile_k) * tile_k <= PLACES_MAX;
}

static bool weights_may_be_prepared(const struct problem *p)
{
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS || taps_of(p) > PREPARE_TAPS_MAX ||
        is_patches(p))
        return false;
    return p->direction == DIRECTION_FORWARD ||
           (taps_of(p) > 1 && p->w_layout == LAYOUT_CHANNELS_FIRST);
}

bool igemm_uses_tf32(const struct problem *p, const struct target *target)
{
    return p->allow_tf32 && target_capability(target) >= TF32_FROM;
}

struct perf_space vector_space(const struct problem *p, const struct target *target)
{
    if (igemm_uses_tf32(p, target))
        return (struct perf_space){ .axes = tf32_spaces[weights_may_be_prepared(p)],
                                    .count = AXES };
    return (struct perf_space){
        .axes = spaces[copies_are_async(p, target)][weights_may_be_prepared(p)],
        .count = AXES,
    };
}

static uint64_t prepared_elements(const struct problem *p, uint32_t tile_k)
{
    struct vector_product product = vector_product_of(p);
    uint64_t channels = ceil_div(product.channels, tile_k) * tile_k * product.taps;
    if (is_flat(p, tile_k))
        channels = ceil_div((uint64_t)product.channels * product.taps, tile_k) * tile_k;
    return p->groups * channels * ceil_div(product.m, 4) * 4;
}

static uint64_t prepared_bytes(const struct problem *p, uint32_t tile_k)
{
    return prepared_elements(p, tile_k) * data_type_size((enum data_type)p->type);
}

static uint32_t prepare_depth(uint32_t taps)
{
    uint32_t depth = PREPARE_ROWS / taps;
    return depth > 8 ? 8 : depth ? depth : 1;
}

static uint64_t prepare_groups(const struct problem *p, uint32_t tile_k)
{
    struct vector_product product = vector_product_of(p);
    uint64_t channels = product.channels;
    if (!is_flat(p, tile_k))
        channels = ceil_div(channels, tile_k) * tile_k;
    return ceil_div(ceil_div(product.m, 4) * 4, PREPARE_ROWS) *
           ceil_div(channels, prepare_depth(product.taps)) * p->groups;
}

bool vector_prepared_weights_fit(const struct problem *p, const struct target *target,
                                 uint32_t tile_k)
{
    return prepared_elements(p, tile_k) < ELEMENTS_MAX &&
           prepared_bytes(p, tile_k) <= WORKSPACE_MAX &&
           geometry_is_launchable(target, prepare_groups(p, tile_k), PREPARE_ITEMS);
}

struct workspace { /* in bytes */
    uint64_t parts_at, size;
};

static struct workspace workspace_of(const struct problem *p, const uint16_t *v)
{
    struct workspace space = { 0 };
    if (v[PREPARE])
        space.size = prepared_bytes(p, v[TILE_K]);
    space.parts_at = ceil_div(space.size, 256) * 256;
    if (v[SPLITS] > 1)
        space.size = space.parts_at + geometry_output_elements(p) * v[SPLITS] * sizeof(float);
    return space;
}

static bool registers_suffice(const uint16_t *v, bool async)
{
    uint32_t sums = (uint32_t)v[ITEM_M] * v[ITEM_N], items = vector_items(v);
    uint32_t fetched = (uint32_t)(v[TILE_M] + v[TILE_N]) * v[TILE_K] / items;
    if (v[TILE_M] < v[ITEM_M] || v[TILE_N] < v[ITEM_N] || items < 64 || items > 512 || sums > 128)
        return false;
    return sums <= (items > 256 ? 64 : 128) && fetched <= (async ? 64u : sums > 64 ? 16u : 32u);
}

#define PADDING_MAX 4u
#define TF32_PADDING 8u

static bool warps_suit(const uint16_t *v)
{
    return v[TILE_M] / v[ITEM_M] % 8 == 0 && v[TILE_N] / v[ITEM_N] % 4 == 0;
}

static uint32_t stages_bytes(const uint16_t *v, uint32_t padding)
{
    return (uint32_t)v[STAGES] * v[TILE_K] * (v[TILE_M] + v[TILE_N] + 2 * padding) *
           (uint32_t)sizeof(float);
}

static bool shared_memory_suffices(const struct problem *p, const struct target *target,
                                   const uint16_t *v)
{
    static const uint32_t most[] = { [TARGET_AMDGPU] = SHARED_AMDGPU,
                                     [TARGET_NVIDIA] = SHARED_NVIDIA,
                                     [TARGET_OPENCL] = SHARED_OPENCL };
    bool tf32 = igemm_uses_tf32(p, target);
    uint32_t bytes = stages_bytes(v, tf32 ? TF32_PADDING : PADDING_MAX);
    if (is_flat(p, v[TILE_K]))
        bytes += PLACES_MAX * 8;
    return bytes <= (tf32 ? SHARED_DYNAMIC : most[target->family]);
}

/* Tile sizes that are always allowed.  A larger size is rejected if the problem would never fill
 * more than half of it. */
#define SMALL_M 32u
#define SMALL_N 64u
#define SMALL_K 8u

static bool tiles_suit(const struct vector_product *product, const uint16_t *v, bool flat)
{
    uint64_t widest = 0;
    for (uint32_t i = 0; i < product->classes; i++)
        if (product->columns[i] > widest)
            widest = product->columns[i];
    uint64_t depth = product->taps > 1 && !flat ? product->channels : product->steps_of_one;
    return (v[TILE_M] <= SMALL_M || v[TILE_M] < 2 * product->m) &&
           (v[TILE_N] <= SMALL_N || v[TILE_N] < 2 * widest) &&
           (v[TILE_K] <= SMALL_K || v[TILE_K] < 2 * depth);
}

/* Maximum number of tiles for splits.  With more tiles, the GPU is full without splits.  A split
 * must sum at least four steps. */
#define TILES_TO_SPLIT 1024u
#define GROUPS_OF_SPLITS 8192u

static bool splits_suit(const struct problem *p, const struct target *target,
                        const struct vector_product *product, const uint16_t *v)
{
    uint64_t tiles = vector_tiles(product, p->groups, v);
    if (v[SPLITS] == 1)
        return geometry_is_launchable(target, tiles, vector_items(v));
    return tiles <= TILES_TO_SPLIT && tiles * v[SPLITS] <= GROUPS_OF_SPLITS &&
           ceil_div(product->steps_of_one, v[TILE_K]) >= 4ull * v[SPLITS];
}

bool vector_config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    const uint16_t *v = config->values;
    struct vector_product product = vector_product_of(p);
    if (!registers_suffice(v, copies_are_async(p, target)) ||
        !shared_memory_suffices(p, target, v) || !tiles_suit(&product, v, is_flat(p, v[TILE_K])) ||
        !splits_suit(p, target, &product, v) || (igemm_uses_tf32(p, target) && !warps_suit(v)))
        return false;
    return (!v[PREPARE] || vector_prepared_weights_fit(p, target, v[TILE_K])) &&
           workspace_of(p, v).size <= WORKSPACE_MAX;
}

static void write_options(const struct problem *p, const struct target *target, const uint16_t *v,
                          char *options, size_t size)
{
    struct option_text text = { options, size, 0 };
    option_define_problem(&text, p);
    option_define_extent(&text, "TAP_STRIDE",
                         (struct extent){ geometry_tap_step(p->stride.d, p->dilation.d),
                                          geometry_tap_step(p->stride.h, p->dilation.h),
                                          geometry_tap_step(p->stride.w, p->dilation.w) });
    option_define(&text, "TILE_M", v[TILE_M]);
    option_define(&text, "TILE_N", v[TILE_N]);
    option_define(&text, "TILE_K", v[TILE_K]);
    option_define(&text, "ITEM_M", v[ITEM_M]);
    option_define(&text, "ITEM_N", v[ITEM_N]);
    option_define(&text, "STAGES", v[STAGES]);
    option_define(&text, "FLAT", is_flat(p, v[TILE_K]));
    option_define(&text, "ASYNC", copies_are_async(p, target));
    if (igemm_uses_tf32(p, target))
        option_define(&text, "TF32", 1);
    option_define(&text, "PREPARED", v[PREPARE]);
    option_define(&text, "SPLIT", v[SPLITS] > 1);
    option_define(&text, "PREPARE", 0);
}

static void write_prepare_options(const struct problem *p, const uint16_t *v, char *options,
                                  size_t size)
{
    struct option_text text = { options, size, 0 };
    option_define(&text, "DIRECTION", p->direction);
    option_define(&text, "TYPE", p->type);
    option_define(&text, "C", p->c);
    option_define(&text, "K", p->k);
    option_define(&text, "GROUPS", p->groups);
    option_define_extent(&text, "FILTER", p->filter);
    option_define(&text, "W_LAST", p->w_layout == LAYOUT_CHANNELS_LAST);
    option_define(&text, "TILE_K", v[TILE_K]);
    option_define(&text, "FLAT", is_flat(p, v[TILE_K]));
    option_define(&text, "PREPARE", 1);
}

static const char *const header_names[] = { "kiln/prelude.h",
                                            "kiln/igemm_vector_fetch.h",
                                            "kiln/igemm_vector_pixels.h",
                                            "kiln/igemm_vector_weights.h",
                                            "kiln/matrix_cores.h",
                                            "kiln/matrix_cores_amd.h" };
static const char *const kernel_names[] = { "conv_implicit_gemm_vector_forward",
                                            "conv_implicit_gemm_vector_backward_data",
                                            "conv_implicit_gemm_vector_backward_weights" };

static struct solution_program *add_program(struct solution *solution)
{
    struct solution_program *program = &solution->programs[solution->program_count++];
    program->name = "conv_implicit_gemm_vector.cl";
    program->source =
        bytes_of(kernels_conv_implicit_gemm_vector, kernels_conv_implicit_gemm_vector_size);
    program->header_names = header_names;
    program->header_texts[0] = bytes_of(kernels_prelude, kernels_prelude_size);
    program->header_texts[1] =
        bytes_of(kernels_igemm_vector_fetch, kernels_igemm_vector_fetch_size);
    program->header_texts[2] =
        bytes_of(kernels_igemm_vector_pixels, kernels_igemm_vector_pixels_size);
    program->header_texts[3] =
        bytes_of(kernels_igemm_vector_weights, kernels_igemm_vector_weights_size);
    program->header_count = 4;
    return program;
}

/* Adds the headers for matrix cores.  Do not add them to other programs: a kernel's key depends on
 * all headers of its program, even on unused ones. */
static void add_matrix_cores(struct solution_program *program)
{
    program->header_texts[program->header_count++] =
        bytes_of(kernels_matrix_cores, kernels_matrix_cores_size);
    program->header_texts[program->header_count++] =
        bytes_of(kernels_matrix_cores_amd, kernels_matrix_cores_amd_size);
}

static void add_prepare(const struct problem *p, const uint16_t *v, struct solution *solution)
{
    struct solution_program *program = add_program(solution);
    write_prepare_options(p, v, program->options, sizeof(program->options));
    solution->kernels[solution->kernel_count++] = (struct solution_kernel){
        .name = "conv_implicit_gemm_vector_prepare",
        .program = (uint32_t)(program - solution->programs),
        .grid = { (uint32_t)prepare_groups(p, v[TILE_K]), 1, 1 },
        .group = { PREPARE_ITEMS, 1, 1 },
        .argument_count = 2,
        .arguments = { { ARGUMENT_W, 0 }, { ARGUMENT_WORKSPACE, 0 } },
    };
}

static void add_product(const struct problem *p, const struct target *target, const uint16_t *v,
                        struct solution_argument output, struct solution *solution)
{
    static const struct {
        enum argument_kind a, b;
    } operands[] = { [DIRECTION_FORWARD] = { ARGUMENT_W, ARGUMENT_X },
                     [DIRECTION_BACKWARD_DATA] = { ARGUMENT_W, ARGUMENT_Y },
                     [DIRECTION_BACKWARD_WEIGHTS] = { ARGUMENT_Y, ARGUMENT_X } };
    struct vector_product product = vector_product_of(p);
    uint64_t column_tiles = vector_column_tiles(&product, v[TILE_N]);
    uint64_t tiles = vector_tiles(&product, p->groups, v) * v[SPLITS];
    struct solution_program *program = add_program(solution);
    write_options(p, target, v, program->options, sizeof(program->options));
    if (igemm_uses_tf32(p, target))
        add_matrix_cores(program);
    solution->kernels[solution->kernel_count++] = (struct solution_kernel){
        .name = kernel_names[p->direction],
        .program = (uint32_t)(program - solution->programs),
        .grid = { (uint32_t)tiles, 1, 1 },
        .group = { vector_items(v), 1, 1 },
        .shared_bytes = igemm_uses_tf32(p, target) ? stages_bytes(v, TF32_PADDING) : 0,
        .argument_count = 7,
        .arguments = { { v[PREPARE] ? ARGUMENT_WORKSPACE : operands[p->direction].a, 0 },
                       { operands[p->direction].b, 0 },
                       output,
                       { ARGUMENT_U32, p->n },
                       { ARGUMENT_U32, column_tiles },
                       { ARGUMENT_U32, v[SPLITS] },
                       { ARGUMENT_U32, v[ROWS_FIRST] } },
    };
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    static const enum argument_kind outputs[] = { [DIRECTION_FORWARD] = ARGUMENT_Y,
                                                  [DIRECTION_BACKWARD_DATA] = ARGUMENT_X,
                                                  [DIRECTION_BACKWARD_WEIGHTS] = ARGUMENT_W };
    (void)err;
    const uint16_t *v = config->values;
    struct workspace workspace = workspace_of(p, v);
    struct split_reduce reduce = { .type = p->type,
                                   .parts = { ARGUMENT_WORKSPACE, workspace.parts_at },
                                   .output = { outputs[p->direction], 0 },
                                   .elements = geometry_output_elements(p),
                                   .splits = v[SPLITS] };
    *ret_solution = (struct solution){ .workspace_size = workspace.size };
    if (v[PREPARE])
        add_prepare(p, v, ret_solution);
    add_product(p, target, v, v[SPLITS] > 1 ? reduce.parts : reduce.output, ret_solution);
    if (v[SPLITS] > 1)
        split_reduce_add(&reduce, ret_solution);
    return KILN_OK;
}

const struct igemm_path igemm_path_vector = {
    .name = "vector",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = vector_space,
    .config_is_valid = vector_config_is_valid,
    .choose_config = vector_choose_config,
    .solve = solve,
};
