/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_direct_narrow.h"

#include "engine/solver/conv_implicit_gemm_paths.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"
#include "engine/solver/split_reduce.h"

#include <math.h>

enum axis { COLUMNS, STRIPS, ROWS, DEPTH, SPLITS, AXES };

static const struct perf_axis axes[AXES] = {
    { "columns", PERF_VALUES(4, 8, 16) },
    { "strips", PERF_VALUES(1, 2, 4, 7, 8, 14, 16, 28, 32) },
    { "rows", PERF_VALUES(2, 4, 8, 16, 32, 64) },
    { "depth", PERF_VALUES(1, 2, 4) },
    { "splits", PERF_VALUES(1, 2, 4, 8, 16, 32) },
};

/*
 * Backward data, written as a gather.  Along one axis:
 *
 *     x[i] = sum of w[t] * y[q] over the taps t where
 *     q = (i + pad - t * dilation) / stride is a whole number
 *
 * x is cut into blocks of stride_h x stride_w pixels.  A tap reaches exactly one pixel of every
 * block.  The tap multiplies the pixel of y whose index is the block's index plus a fixed offset.
 * So no product with zero is computed.  Example along one axis: stride 2, pad 1, 3 taps,
 * dilation 1.
 *
 *     pixel of block b      reached by tap     from pixel of y
 *     2b                    1                  b
 *     2b + 1                0                  b + 1
 *     2b + 1                2                  b
 *
 * A work item sums a strip of COLUMNS neighbouring blocks in registers, for all channels of x in
 * the group.  A work group holds ROWS rows of STRIPS strips.  DEPTH channels of y and their weights
 * are in shared memory at a time.  If x has few pixels, SPLITS work groups share the channels of y,
 * and split_reduce.h adds up their sums.
 *
 * Forward with strides of 1 is the same computation, with x and y exchanged and the filter reversed
 * (gather_of).
 *
 * SHARED_MAX is the shared memory that every target grants a work group by default.
 */
#define SHARED_MAX 32768u
#define SUMS_MAX 128u
#define UNROLLED_MAX 2048u
#define WEIGHTS_MAX 64u
#define ITEMS_MIN 32u
#define ITEMS_MAX 256u
/* Minimum number of channels in a group for which ConvImplicitGemm is faster. */
#define CHANNELS_TOO_WIDE 8u
/* Minimum number of channels that a split sums. */
#define CHANNELS_OF_SPLIT 8u
/* Maximum number of tiles for splits.  With more tiles, the GPU is full without splits. */
#define TILES_TO_SPLIT 256u
#define WORKSPACE_MAX (512ull << 20)

/*
 * Returns the problem as backward data.
 *
 * Along one axis, forward with stride 1 and F taps is the following sum, in which t counts the taps
 * from the last one:
 *
 *     y[i] = sum of w[F - 1 - t] * x[i + (F - 1) * dilation - pad - t * dilation]
 *
 * So y takes the place of x above, and the pad is (F - 1) * dilation - pad.  The kernel reads the
 * weights in the reverse order.
 */
static struct problem gather_of(const struct problem *p)
{
    struct problem q = *p;
    if (p->direction != DIRECTION_FORWARD)
        return q;
    q.direction = DIRECTION_BACKWARD_DATA;
    q.in = problem_output(p);
    q.c = p->k;
    q.k = p->c;
    q.x_layout = p->y_layout;
    q.y_layout = p->x_layout;
    q.pad.h = (p->filter.h - 1) * p->dilation.h - p->pad.h;
    q.pad.w = (p->filter.w - 1) * p->dilation.w - p->pad.w;
    return q;
}

static bool is_gather(const struct problem *p)
{
    if (p->direction != DIRECTION_FORWARD)
        return p->direction == DIRECTION_BACKWARD_DATA;
    return p->stride.h == 1 && p->stride.w == 1 &&
           p->pad.h <= (uint64_t)(p->filter.h - 1) * p->dilation.h &&
           p->pad.w <= (uint64_t)(p->filter.w - 1) * p->dilation.w;
}

struct reach {
    uint64_t blocks;
    /* Number of pixels of y that a strip reads in addition to one for each block. */
    uint64_t more;
};

/* A tap's offset is the index of the pixel of y that it multiplies, minus the index of the block of
 * x (OFFSET in the kernel).  |more| is the first tap's offset minus the last tap's. */
static struct reach reach_of(uint32_t in, uint32_t filter, uint32_t pad, uint32_t stride,
                             uint32_t dilation)
{
    int64_t last = (int64_t)pad - (int64_t)(filter - 1) * dilation, step = stride;
    int64_t first_offset = ((int64_t)pad + step - 1) / step;
    int64_t last_offset = last >= 0 ? (last + step - 1) / step : -(-last / step);
    return (struct reach){ ceil_div(in, stride), (uint64_t)(first_offset - last_offset) };
}

static struct reach reach_h(const struct problem *p)
{
    return reach_of(p->in.h, p->filter.h, p->pad.h, p->stride.h, p->dilation.h);
}

static struct reach reach_w(const struct problem *p)
{
    return reach_of(p->in.w, p->filter.w, p->pad.w, p->stride.w, p->dilation.w);
}

static uint64_t round_to_four(uint64_t count) { return ceil_div(count, 4) * 4; }

static uint64_t weights_in_row(const struct problem *p)
{
    return round_to_four((uint64_t)p->filter.w * (p->c / p->groups));
}

static uint64_t shared_bytes(const struct problem *p, const uint16_t *v)
{
    uint64_t columns = (uint64_t)v[STRIPS] * v[COLUMNS] + reach_w(p).more;
    uint64_t row = ceil_div(columns, 4) / 2 * 8 + 4;
    uint64_t floats = row * (v[ROWS] + reach_h(p).more) + weights_in_row(p) * p->filter.h;
    return floats * v[DEPTH] * sizeof(float);
}

static uint64_t tiles_of(const struct problem *p, const uint16_t *v)
{
    return (uint64_t)p->n * p->groups * ceil_div(reach_h(p).blocks, v[ROWS]) *
           ceil_div(reach_w(p).blocks, (uint64_t)v[STRIPS] * v[COLUMNS]);
}

/* Returns how many channels of y a split sums, rounded up to a multiple of DEPTH. */
static uint64_t channels_of_split(const struct problem *p, const uint16_t *v)
{
    uint64_t channels = ceil_div(p->k / p->groups, v[SPLITS]);
    return ceil_div(channels, v[DEPTH]) * v[DEPTH];
}

/* Returns false for splits if y has channels last, because ConvImplicitGemm reads that layout of y
 * faster.
 * */
static bool splits_suit(const struct problem *p, const uint16_t *v)
{
    uint32_t channels = p->k / p->groups;
    return v[SPLITS] == 1 ||
           (p->y_layout == LAYOUT_CHANNELS_FIRST && tiles_of(p, v) <= TILES_TO_SPLIT &&
            channels >= v[SPLITS] * CHANNELS_OF_SPLIT &&
            channels_of_split(p, v) * (v[SPLITS] - 1u) < channels &&
            problem_x_elements(p) * v[SPLITS] * sizeof(float) <= WORKSPACE_MAX);
}

static bool fits(const struct problem *p, const struct target *target, const uint16_t *v)
{
    uint32_t channels = p->c / p->groups, items = (uint32_t)v[STRIPS] * v[ROWS];
    uint64_t sums = (uint64_t)p->stride.h * p->stride.w * channels * v[COLUMNS];
    uint64_t products = (uint64_t)p->filter.h * p->filter.w * channels * v[COLUMNS];
    if (p->stride.h > SUMS_MAX || p->stride.w > SUMS_MAX || p->filter.h > UNROLLED_MAX ||
        p->filter.w > UNROLLED_MAX)
        return false; /* the products above may have overflowed 64 bits */
    return items >= ITEMS_MIN && items <= ITEMS_MAX && sums <= SUMS_MAX &&
           products <= UNROLLED_MAX && weights_in_row(p) <= WEIGHTS_MAX &&
           reach_w(p).more <= WEIGHTS_MAX && shared_bytes(p, v) <= SHARED_MAX &&
           splits_suit(p, v) && geometry_is_launchable(target, tiles_of(p, v) * v[SPLITS], items);
}

static const uint16_t smallest[AXES] = { 4, 8, 4, 1, 1 };

static bool applies(const struct problem *p, const struct target *target)
{
    if (!is_gather(p) || p->type == TYPE_INT8 || p->in.d > 1 || p->filter.d > 1 || p->pad.d > 0 ||
        p->stride.d > 1 || !geometry_fits_30_bits(p))
        return false;
    struct problem gather = gather_of(p);
    return fits(&gather, target, smallest);
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    (void)p;
    (void)target;
    return (struct perf_space){ .axes = axes, .count = AXES };
}

/* Rejects work groups with more than half of the items always idle, except the smallest group. */
static bool gather_is_valid(const struct problem *p, const struct target *target, const uint16_t *v)
{
    uint64_t strips = ceil_div(reach_w(p).blocks, v[COLUMNS]);
    return fits(p, target, v) && (v[STRIPS] <= smallest[STRIPS] || v[STRIPS] < 2 * strips) &&
           (v[ROWS] <= smallest[ROWS] || v[ROWS] < 2 * reach_h(p).blocks) &&
           (v[DEPTH] == 1 || v[DEPTH] <= p->k / p->groups);
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    struct problem gather = gather_of(p);
    return gather_is_valid(&gather, target, config->values);
}

#define UNITS 132.0 /* compute units of an H100 or H200 */
#define REGISTERS_A_UNIT 65536.0
#define SHARED_OF_UNIT (227.0 * 1024)
#define LANES_A_UNIT 128.0 /* multiply-adds of a compute unit per cycle */
#define GROUPS_A_UNIT 32.0
#define REGISTERS_BESIDE_SUMS 72.0 /* registers that an item needs in addition to its sums */
/* The COST_ constants are costs for one item, in multiply-adds.  This one is for reading four
 * floats of y from shared memory. */
#define COST_OF_READING 5.5
/* The cost of reading four floats of weights, which all items of a wave read together. */
#define COST_OF_WEIGHTS 1.5
#define COST_OF_FETCHING 5.7 /* to copy an element of y to shared memory */
/* Cycles of a step's barriers. */
#define COST_OF_BARRIERS 12.5
/* Cycles from the start of a step's copies until the data can be used. */
#define LATENCY 1600.0
#define CYCLES_PER_US 930.0
#define SECTOR_BYTES 32u /* memory is read in pieces of this size */
/* additional sectors of a row, on average, because it may begin within a sector */
#define EDGES_OF_ROW 0.8
#define READ_BYTES_PER_US 2.8e6
#define WRITE_BYTES_PER_US 3.5e6
/* The part of the shorter of two times (products, memory accesses) that does not overlap with the
 * longer one.  The estimate is the longer time plus this part of the shorter one. */
#define NOT_OVERLAPPED 0.15
/* The rate at which the sums of the splits are written and read, and the time to start the kernel
 * that adds them up. */
#define SPLIT_BYTES_PER_US 4.0e6
#define SPLIT_US 6.4

/* Returns the bytes of y that all work groups read from memory.  With channels first, a row takes
 * whole sectors.  With channels last, a step uses only its channels of a sector; later steps find
 * the sector's other channels in the caches. */
static double bytes_read(const struct problem *p, const uint16_t *v)
{
    double size = (double)data_type_size((enum data_type)p->type);
    uint64_t columns = (uint64_t)v[STRIPS] * v[COLUMNS] + reach_w(p).more;
    double row = (double)columns * size;
    if (p->y_layout == LAYOUT_CHANNELS_FIRST)
        row = (ceil(row / SECTOR_BYTES) + EDGES_OF_ROW) * SECTOR_BYTES;
    return (double)tiles_of(p, v) * (p->k / p->groups) * (double)(v[ROWS] + reach_h(p).more) * row;
}

static double memory_us(const struct problem *p, const uint16_t *v)
{
    double size = (double)data_type_size((enum data_type)p->type);
    double written = v[SPLITS] > 1 ? 0 : (double)problem_x_elements(p) * size;
    return bytes_read(p, v) / READ_BYTES_PER_US + written / WRITE_BYTES_PER_US;
}

/*
 * Estimates the time of the products in microseconds.
 *
 * In one step, a work group copies |depth| channels, waits, and multiplies them.  |together| work
 * groups run on a unit at the same time, and one works while others wait.  So a step takes the sum
 * of their work, or the latency of a single group, whichever is longer.
 */
static double products_us(const struct problem *p, const struct target *target, const uint16_t *v)
{
    double wave = target->family == TARGET_AMDGPU ? 64 : 32;
    double sums = (double)p->stride.h * p->stride.w * (p->c / p->groups) * v[COLUMNS];
    double items = (double)v[STRIPS] * v[ROWS], taps = (double)p->filter.h * p->filter.w;
    double slots = ceil(items / wave) * wave, tiles = (double)tiles_of(p, v) * v[SPLITS];
    double together = floor(REGISTERS_A_UNIT / ((sums + REGISTERS_BESIDE_SUMS) * slots));
    together = fmin(together, floor(SHARED_OF_UNIT / (double)(shared_bytes(p, v) + 1024)));
    together = fmax(1, fmin(fmin(together, GROUPS_A_UNIT), ceil(tiles / UNITS)));
    struct reach h = reach_h(p), w = reach_w(p);
    double window = (double)ceil_div(v[COLUMNS] + w.more, 4);
    double reads = (double)weights_in_row(p) / 4 * p->filter.h * COST_OF_WEIGHTS +
                   window * (double)(1 + h.more) * COST_OF_READING;
    double fetched =
        (double)(v[ROWS] + h.more) * ((double)v[STRIPS] * v[COLUMNS] + (double)w.more) / items;
    double products = taps * (p->c / p->groups) * v[COLUMNS];
    double one = (fmax(products, reads) + fetched * COST_OF_FETCHING) * v[DEPTH];
    double shared = one * slots / LANES_A_UNIT + COST_OF_BARRIERS;
    double alone = one * ceil(slots / LANES_A_UNIT);
    double step = fmax(together * shared, LATENCY + alone);
    double steps = (double)channels_of_split(p, v) / v[DEPTH];
    return ceil(tiles / (UNITS * together)) * steps * step / CYCLES_PER_US;
}

/*
 * Estimates the time in microseconds.  The constants were fitted to 500 trials on an H200, of 26
 * problems with channels first in fp32, fp16 and bf16.  Among the tried configs of a problem, the
 * one with the lowest estimate took 7 % longer than the fastest one in geometric mean, and at most
 * 41 % longer.
 */
static double estimate(const struct problem *p, const struct target *target, const uint16_t *v)
{
    double products = products_us(p, target, v), memory = memory_us(p, v);
    double us = fmax(products, memory) + NOT_OVERLAPPED * fmin(products, memory);
    if (v[SPLITS] > 1)
        us += SPLIT_US +
              2.0 * sizeof(float) * v[SPLITS] * (double)problem_x_elements(p) / SPLIT_BYTES_PER_US;
    return us;
}

static double choose_best(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    struct problem gather = gather_of(p);
    struct perf_space all = space(p, target);
    uint32_t size = perf_space_size(&all);
    double best = INFINITY;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config config;
        perf_space_at(&all, i, &config);
        if (!gather_is_valid(&gather, target, config.values))
            continue;
        double us = estimate(&gather, target, config.values);
        if (us < best) {
            best = us;
            *ret_config = config;
        }
    }
    return best;
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    choose_best(p, target, ret_config);
}

/*
 * This solver competes with ConvImplicitGemm, which pads the channels of x to 16 bytes in the
 * workspace, and multiplies tiles of 32 columns.  On matrix cores that are ten times as fast as the
 * vector units, ConvImplicitGemm is nevertheless faster if y has many channels and x few pixels.
 * The constants were fitted to three trials on an H100, where the estimate is off by at most 10 %.
 */
#define PACKED_CHUNK 16u
#define PACKED_COLUMNS 32.0
#define PACKED_US 10.0               /* time to launch three kernels */
#define PACKED_PRODUCTS_PER_US 130e6 /* for 16-bit types; half of it for TF32 */
#define PACKED_BYTES_PER_US 3e6

static double estimate_packed(const struct problem *p)
{
    struct extent out = problem_output(p);
    double size = (double)data_type_size((enum data_type)p->type);
    double pixels = (double)p->n * p->in.h * p->in.w, strides = (double)p->stride.h * p->stride.w;
    double taps = (double)p->filter.h * p->filter.w / strides;
    double products = pixels * PACKED_COLUMNS * p->groups * taps * (p->k / p->groups);
    double x = pixels * p->groups * PACKED_CHUNK, y = (double)p->n * out.h * out.w * p->k * size;
    double bytes = 3 * x + y * (p->y_layout == LAYOUT_CHANNELS_LAST ? 1 : 3);
    return PACKED_US + products * (size / 2) / PACKED_PRODUCTS_PER_US + bytes / PACKED_BYTES_PER_US;
}

static bool is_large(const struct target *target)
{
    unsigned capability = target_capability(target);
    return capability == 80 || capability == 90 || capability == 100;
}

/* Rows of the smallest tiles of ConvImplicitGemm's vector path.  Most of these rows are idle if a
 * group has few channels. */
#define VECTOR_ROWS 16u
#define VECTOR_FLOPS_PER_US 43e6
#define VECTOR_US 10.0
/* This solver is favoured if its estimate is at most this factor times the vector path's.  The
 * factor exceeds 1 because the estimates were fitted to few trials. */
#define VECTOR_MARGIN 1.5

static double estimate_vector(const struct problem *p)
{
    double idle = VECTOR_ROWS / (double)(p->c / p->groups);
    return VECTOR_US + problem_flops(p) * idle / VECTOR_FLOPS_PER_US;
}

/* Forward is favoured only where it was measured: with channels first, on GPUs with large matrix
 * cores (is_large).  With one tap, forward is slower here than in ConvDirectNaive. */
static bool is_favoured(const struct problem *p, const struct target *target)
{
    struct problem gather = gather_of(p);
    struct perf_config config;
    bool is_forward = p->direction == DIRECTION_FORWARD;
    if (gather.c / gather.groups >= CHANNELS_TOO_WIDE ||
        (is_forward && (p->x_layout == LAYOUT_CHANNELS_LAST || p->filter.h * p->filter.w == 1)))
        return false;
    if (!is_large(target))
        return !is_forward;
    double us = choose_best(p, target, &config);
    return us <= (igemm_path_for(p, target) == &igemm_path_mma
                      ? estimate_packed(&gather)
                      : estimate_vector(&gather) * VECTOR_MARGIN);
}

static const char *const header_names[] = { "kiln/prelude.h" };

static void write_options(const struct problem *p, const uint16_t *v, struct option_text *text)
{
    struct problem gather = gather_of(p);
    option_define_problem(text, &gather);
    option_define(text, "TURNED", p->direction == DIRECTION_FORWARD);
    option_define(text, "COLUMNS", v[COLUMNS]);
    option_define(text, "STRIPS", v[STRIPS]);
    option_define(text, "ROWS", v[ROWS]);
    option_define(text, "DEPTH", v[DEPTH]);
    option_define(text, "SPLIT", v[SPLITS] > 1);
}

static void sum_splits(const struct problem *p, uint32_t splits, struct solution *solution)
{
    struct split_reduce reduce = { .type = p->type,
                                   .parts = { ARGUMENT_WORKSPACE, 0 },
                                   .output = solution->kernels[0].arguments[2],
                                   .elements = geometry_output_elements(p),
                                   .splits = splits };
    solution->workspace_size = splits * reduce.elements * sizeof(float);
    solution->kernels[0].arguments[2] = reduce.parts;
    split_reduce_add(&reduce, solution);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)target;
    (void)err;
    const uint16_t *v = config->values;
    bool is_forward = p->direction == DIRECTION_FORWARD;
    struct problem gather = gather_of(p);
    *ret_solution = (struct solution){ .program_count = 1, .kernel_count = 1 };
    struct solution_program *program = &ret_solution->programs[0];
    struct option_text text = { program->options, sizeof(program->options), 0 };
    program->name = "conv_direct_narrow.cl";
    program->source = bytes_of(kernels_conv_direct_narrow, kernels_conv_direct_narrow_size);
    program->header_names = header_names;
    program->header_texts[0] = bytes_of(kernels_prelude, kernels_prelude_size);
    program->header_count = 1;
    write_options(p, v, &text);
    ret_solution->kernels[0] = (struct solution_kernel){
        .name = is_forward ? "conv_direct_narrow_forward" : "conv_direct_narrow_backward_data",
        .grid = { (uint32_t)tiles_of(&gather, v) * v[SPLITS], 1, 1 },
        .group = { (uint32_t)v[STRIPS] * v[ROWS], 1, 1 },
        .argument_count = 6,
        .arguments = { { ARGUMENT_W, 0 },
                       { is_forward ? ARGUMENT_X : ARGUMENT_Y, 0 },
                       { is_forward ? ARGUMENT_Y : ARGUMENT_X, 0 },
                       { ARGUMENT_U32, v[SPLITS] },
                       { ARGUMENT_U32, channels_of_split(&gather, v) },
                       { ARGUMENT_U32, geometry_output_elements(p) } },
    };
    if (v[SPLITS] > 1)
        sum_splits(p, v[SPLITS], ret_solution);
    return KILN_OK;
}

const struct solver solver_conv_direct_narrow = {
    .name = "ConvDirectNarrow",
    .algorithm = "Direct",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
