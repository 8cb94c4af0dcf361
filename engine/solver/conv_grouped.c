/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_grouped.h"

#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"
#include "engine/solver/split_reduce.h"

#include <math.h>

/*
 * Matrix cores multiply blocks of 16 channels by 16 pixels.  A group with 4 channels would leave
 * three quarters of a block empty.  So groups are bundled until both c and k of the bundle are
 * multiples of 16.  The bundle is then multiplied like one group.  Its weights that connect two
 * different groups are zero.  The products with these zeros cost nothing, because their part of the
 * block would otherwise be idle.
 *
 *     4 groups with 4 channels of x and of y, w as a 16 x 16 block (k down, c across)
 *
 *         w0  .   .   .
 *         .   w1  .   .         "." is a 4 x 4 block of zeros
 *         .   .   w2  .
 *         .   .   .   w3
 *
 * A work group takes SLAB bundles and a tile of ROWS x COLUMNS pixels.  It copies the patch of
 * pixels under the tile to shared memory once, and all taps read it there.
 *
 *   Forward and backward data: WARPS warps divide the tile's 16 x 16 blocks of results.  A warp
 *   multiplies BLOCKS_M blocks of pixels by each block of weights that it loads.
 *
 *   Backward weights: warps divide the taps (at most TAPS_EACH_MAX for each warp) and the blocks of
 *   weights.  PARTS warps also share the pixels of a tile, and SPLITS work groups share the tiles.
 *   Each of the PARTS * SPLITS writes its own fp32 copy of the weights, a slot; split_reduce.h adds
 *   up the slots.
 */
/* Number of channels, and of pixels, that the matrix cores multiply at a time. */
#define BLOCK 16u
#define CHUNK 8u /* channels of a 16-byte copy */
/* Maximum number of channels in a bundle.  For more, ConvImplicitGemm is suitable. */
#define BUNDLE_MAX 64u
/* Maximum number of channels of a group for which this solver is favoured.  For groups of 32
 * channels, ConvImplicitGemm is faster (H100). */
#define FAVOURED_MAX 16u
#define TAPS_MAX 343u /* 7x7x7 */
/* Maximum number of taps of a warp.  Each item of the warp keeps the sums of a tap in eight
 * registers. */
#define TAPS_EACH_MAX 10u
/* Bytes of shared memory that all targets of this solver grant a work group. */
#define SHARED_MAX 99u * 1024
#define WARPS_MAX 16u
#define SLOTS_MAX 1024u /* fp32 copies of the weights */
#define WORKSPACE_MAX (512ull << 20)
#define PIXELS_MAX 512u

enum axis { ROWS, COLUMNS, SLAB, WARPS, BLOCKS_M, AXES, PARTS = WARPS, SPLITS = BLOCKS_M };

/* First index: 0 for forward and backward data, 1 for backward weights. */
static const struct perf_axis axes[2][AXES] = {
    { { "rows", PERF_VALUES(1, 2, 4, 7, 8, 14, 16) },
      { "columns", PERF_VALUES(7, 8, 14, 16, 28, 32, 56) },
      { "slab", PERF_VALUES(1, 2, 4, 8) },
      { "warps", PERF_VALUES(2, 4, 8, 16) },
      { "blocks_m", PERF_VALUES(1, 2, 4) } },
    { { "rows", PERF_VALUES(1, 2, 4, 7, 8, 14, 16) },
      { "columns", PERF_VALUES(7, 8, 14, 16, 28, 32, 56) },
      { "slab", PERF_VALUES(1, 2, 4, 8) },
      { "parts", PERF_VALUES(1, 2, 4, 8) },
      { "splits", PERF_VALUES(1, 2, 4, 8, 16, 32, 64, 128, 256, 512) } },
};

static const uint16_t smallest[2][AXES] = { { 1, 7, 1, 2, 1 }, { 1, 7, 1, 1, 1 } };

static bool is_for_weights(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_WEIGHTS;
}

static uint64_t taps_of(const struct problem *p)
{
    return (uint64_t)p->filter.d * p->filter.h * p->filter.w;
}

static uint32_t bundle_of(const struct problem *p)
{
    uint32_t c = p->c / p->groups, k = p->k / p->groups, bundle = 1;
    while (bundle <= BLOCK && (c * bundle % BLOCK || k * bundle % BLOCK))
        bundle *= 2;
    return c > BUNDLE_MAX || k > BUNDLE_MAX || c * bundle > BUNDLE_MAX || k * bundle > BUNDLE_MAX
               ? 0
               : bundle;
}

struct cost {
    uint32_t bundle;
    uint32_t c, k;
    uint64_t patch, result, weights; /* bytes of shared memory */
    uint64_t slabs, tiles;
    uint32_t taps_each, warps;
};

/* Returns the number of source pixels, along one axis, that contribute to |pixels| pixels.  Each
 * residue class of backward data is a convolution with stride 1 (data_box in conv_bulk.c). */
static uint64_t pixels_met(const struct problem *p, uint32_t pixels, uint32_t filter,
                           uint32_t stride, uint32_t dilation)
{
    if (p->direction != DIRECTION_BACKWARD_DATA)
        return (uint64_t)(pixels - 1) * stride + (uint64_t)(filter - 1) * dilation + 1;
    uint32_t step = geometry_tap_step(stride, dilation);
    return pixels + (ceil_div(filter, step) - 1) * ((uint64_t)step * dilation / stride);
}

static uint64_t places(const struct problem *p, uint32_t in, uint32_t out, uint32_t stride)
{
    return p->direction == DIRECTION_BACKWARD_DATA ? ceil_div(in, stride) : out;
}

static uint64_t patch_pixels(const struct problem *p, const uint16_t *v)
{
    uint64_t d = pixels_met(p, 1, p->filter.d, p->stride.d, p->dilation.d);
    uint64_t h = pixels_met(p, v[ROWS], p->filter.h, p->stride.h, p->dilation.h);
    uint64_t w = pixels_met(p, v[COLUMNS], p->filter.w, p->stride.w, p->dilation.w);
    return d > SHARED_MAX || h > SHARED_MAX || w > SHARED_MAX ? SHARED_MAX : d * h * w;
}

static uint64_t tiles_of(const struct problem *p, const uint16_t *v)
{
    struct extent out = problem_output(p);
    uint64_t residues = p->direction == DIRECTION_BACKWARD_DATA
                            ? (uint64_t)p->stride.d * p->stride.h * p->stride.w
                            : 1;
    return residues * p->n * places(p, p->in.d, out.d, p->stride.d) *
           ceil_div(places(p, p->in.h, out.h, p->stride.h), v[ROWS]) *
           ceil_div(places(p, p->in.w, out.w, p->stride.w), v[COLUMNS]);
}

/* Bytes from one pixel to the next.  One chunk of padding makes the distance an odd number of
 * chunks, so that eight neighbouring pixels are in different banks. */
static uint32_t pitch_of(uint32_t channels) { return channels * 2 + 16; }

static struct cost cost_of(const struct problem *p, const uint16_t *v)
{
    struct cost c = { .bundle = bundle_of(p) };
    uint32_t c_bundle = p->c / p->groups * c.bundle, k_bundle = p->k / p->groups * c.bundle;
    bool is_data = p->direction == DIRECTION_BACKWARD_DATA;
    uint64_t taps = taps_of(p);
    c.c = c_bundle * v[SLAB];
    c.k = k_bundle * v[SLAB];
    c.patch = patch_pixels(p, v) * pitch_of(is_data ? c.k : c.c);
    c.result =
        ceil_div((uint64_t)v[ROWS] * v[COLUMNS], BLOCK) * BLOCK * pitch_of(is_data ? c.c : c.k);
    c.weights = is_for_weights(p) ? 0 : taps * c.k * pitch_of(c_bundle);
    c.slabs = ceil_div(p->groups, (uint64_t)c.bundle * v[SLAB]);
    c.tiles = tiles_of(p, v);
    c.warps = v[WARPS];
    if (is_for_weights(p)) {
        uint64_t parts = ceil_div(taps, TAPS_EACH_MAX);
        c.taps_each = (uint32_t)ceil_div(taps, parts);
        c.warps = (uint32_t)(v[PARTS] * v[SLAB] * (c_bundle / BLOCK) * (k_bundle / BLOCK) *
                             ceil_div(taps, c.taps_each));
    }
    return c;
}

static uint64_t shared_of(const struct cost *c) { return c->patch + c->result + c->weights; }

static uint64_t groups_of(const struct problem *p, const struct cost *c, const uint16_t *v)
{
    return c->slabs * (is_for_weights(p) ? v[SPLITS] : c->tiles);
}

static bool is_wasteful(const struct problem *p, const struct cost *c, const uint16_t *v)
{
    struct extent out = problem_output(p);
    const uint16_t *least = smallest[is_for_weights(p)];
    uint64_t bundles = ceil_div(p->groups, c->bundle);
    uint64_t blocks = ceil_div((uint64_t)v[ROWS] * v[COLUMNS], BLOCK);
    if ((v[ROWS] > least[ROWS] && v[ROWS] >= 2 * places(p, p->in.h, out.h, p->stride.h)) ||
        (v[COLUMNS] > 8 && v[COLUMNS] >= 2 * places(p, p->in.w, out.w, p->stride.w)) ||
        (v[SLAB] > 1 && v[SLAB] >= 2 * bundles) || v[ROWS] * v[COLUMNS] > PIXELS_MAX)
        return true;
    if (is_for_weights(p))
        return v[PARTS] > blocks || (v[SPLITS] > 1 && v[SPLITS] > c->tiles);
    uint32_t result = p->direction == DIRECTION_BACKWARD_DATA ? c->c : c->k;
    uint64_t units = result / BLOCK * ceil_div(blocks, v[BLOCKS_M]);
    return (v[WARPS] > least[WARPS] && v[WARPS] > units) || v[BLOCKS_M] > blocks;
}

static bool fits(const struct problem *p, const struct target *target, const uint16_t *v)
{
    struct cost c = cost_of(p, v);
    uint64_t slots = is_for_weights(p) ? (uint64_t)v[PARTS] * v[SPLITS] : 1;
    return !is_wasteful(p, &c, v) && shared_of(&c) <= SHARED_MAX && c.warps <= WARPS_MAX &&
           slots <= SLOTS_MAX &&
           (slots == 1 || slots * problem_w_elements(p) * sizeof(float) <= WORKSPACE_MAX) &&
           geometry_is_launchable(target, groups_of(p, &c, v), c.warps * 32);
}

static bool applies(const struct problem *p, const struct target *target)
{
    return target_capability(target) >= 80 &&
           (p->type == TYPE_FLOAT16 || p->type == TYPE_BFLOAT16) && p->groups > 1 &&
           p->c % CHUNK == 0 && p->k % CHUNK == 0 && p->x_layout == LAYOUT_CHANNELS_LAST &&
           p->y_layout == LAYOUT_CHANNELS_LAST && bundle_of(p) > 0 && p->filter.d <= TAPS_MAX &&
           p->filter.h <= TAPS_MAX && p->filter.w <= TAPS_MAX && taps_of(p) <= TAPS_MAX &&
           p->stride.d <= TAPS_MAX && p->stride.h <= TAPS_MAX && p->stride.w <= TAPS_MAX &&
           geometry_fits_30_bits(p) && fits(p, target, smallest[is_for_weights(p)]);
}

/* For groups of one channel, the solver is faster than ConvDepthwise only for backward weights,
 * where ConvDepthwise adds up the sums of all items in shared memory. */
static bool is_favoured(const struct problem *p, const struct target *target)
{
    (void)target;
    uint32_t c = p->c / p->groups, k = p->k / p->groups;
    return (c > 1 || is_for_weights(p)) && c <= FAVOURED_MAX && k <= FAVOURED_MAX;
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    (void)target;
    return (struct perf_space){ .axes = axes[is_for_weights(p)], .count = AXES };
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    return fits(p, target, config->values);
}

#define PROCESSORS 132.0
#define SHARED_OF_PROCESSOR (227.0 * 1024)
/* Number of warps to which the registers limit a multiprocessor. */
#define WARP_REGISTERS_SHARE 24.0
#define COPY_BYTES_PER_CYCLE 40.0
/* Factor by which weights that cannot be copied in chunks cost more than other copies. */
#define ZEROS_COST 3.0
#define LOAD_CYCLES 4.0 /* to load 512 bytes from shared memory */
/* Cycles of the start and the end of a work group. */
#define FILL_CYCLES 2200.0
#define SLOT_BYTES_PER_CYCLE 2000.0

/*
 * Estimates the time in cycles.
 *
 * A work group is limited by copies into shared memory, and by loads from it for the matrix cores.
 * The two overlap partly, so their time is the longer of the two times plus 0.3 of the shorter one.
 * |together| work groups run on a multiprocessor at the same time: as many as shared memory,
 * registers and the number of groups allow.  A round is the time in which these groups run: the
 * sum of their work, or the latency of one group, whichever is longer.  The total is the time of a
 * round, multiplied by the number of rounds.  For backward weights, the total is multiplied by the
 * number of tiles of a split, and the time to write and sum the slots is added.
 */
static double estimate(const struct problem *p, const uint16_t *v)
{
    struct cost c = cost_of(p, v);
    double blocks = (double)ceil_div((uint64_t)v[ROWS] * v[COLUMNS], BLOCK);
    double taps = (double)taps_of(p), rounds_each = 1, slots = 0;
    uint32_t c_bundle = p->c / p->groups * c.bundle, k_bundle = p->k / p->groups * c.bundle;
    bool is_expanded = p->c / p->groups % CHUNK != 0 || p->w_layout != LAYOUT_CHANNELS_LAST;
    double bytes =
        (double)(c.patch + c.result) + (double)c.weights * (is_expanded ? ZEROS_COST : 1);
    double products = blocks * taps * v[SLAB] * (c_bundle / BLOCK) * (k_bundle / BLOCK);
    double loads = is_for_weights(p) ? products * 1.1 : products * (1 + 1.0 / v[BLOCKS_M]);
    double groups = (double)groups_of(p, &c, v);
    if (is_for_weights(p)) {
        rounds_each = (double)ceil_div(c.tiles, v[SPLITS]);
        slots = (double)v[SPLITS] * v[PARTS] * (double)problem_w_elements(p) * 8;
    }
    double together = fmax(1, fmin(floor(SHARED_OF_PROCESSOR / (double)(shared_of(&c) + 1024)),
                                   floor(WARP_REGISTERS_SHARE / c.warps)));
    together = fmin(together, ceil(groups / PROCESSORS));
    double work = fmax(bytes / COPY_BYTES_PER_CYCLE, loads * LOAD_CYCLES) +
                  0.3 * fmin(bytes / COPY_BYTES_PER_CYCLE, loads * LOAD_CYCLES);
    double latency = FILL_CYCLES + loads / c.warps * 30; /* 30 cycles for each load of a warp */
    double rounds = ceil(groups / (PROCESSORS * together));
    return rounds * rounds_each * fmax(work * together, latency + work) +
           slots / SLOT_BYTES_PER_CYCLE;
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    struct perf_space all = space(p, target);
    uint32_t size = perf_space_size(&all);
    double best = INFINITY;
    for (uint32_t i = 0; i < size; i++) {
        struct perf_config config;
        perf_space_at(&all, i, &config);
        if (!config_is_valid(p, target, &config))
            continue;
        double cost = estimate(p, config.values);
        if (cost < best) {
            best = cost;
            *ret_config = config;
        }
    }
}

static const char *const header_names[] = { "kiln/prelude.h", "kiln/matrix_cores.h",
                                            "kiln/conv_view.h", "kiln/matrix_cores_amd.h" };

static const char *const kernel_names[] = {
    [DIRECTION_FORWARD] = "conv_grouped_forward",
    [DIRECTION_BACKWARD_DATA] = "conv_grouped_backward_data",
    [DIRECTION_BACKWARD_WEIGHTS] = "conv_grouped_backward_weights",
};

static void write_options(const struct problem *p, const uint16_t *v, const struct cost *c,
                          struct option_text *text)
{
    struct extent steps = { geometry_tap_step(p->stride.d, p->dilation.d),
                            geometry_tap_step(p->stride.h, p->dilation.h),
                            geometry_tap_step(p->stride.w, p->dilation.w) };
    option_define_problem(text, p);
    option_define_extent(text, "TAP_STEP", steps);
    option_define(text, "BUNDLE", c->bundle);
    option_define(text, "SLAB", v[SLAB]);
    option_define(text, "ROWS", v[ROWS]);
    option_define(text, "COLUMNS", v[COLUMNS]);
    option_define(text, "WARPS", c->warps);
    if (is_for_weights(p)) {
        option_define(text, "TAPS_EACH", c->taps_each);
        option_define(text, "PARTS", v[PARTS]);
        option_define(text, "PARTIAL", v[PARTS] * v[SPLITS] > 1);
    } else {
        option_define(text, "BLOCKS_M", v[BLOCKS_M]);
    }
}

static void sum_slots(const struct problem *p, uint32_t slots, struct solution *solution)
{
    struct split_reduce reduce = { .type = p->type,
                                   .parts = { ARGUMENT_WORKSPACE, 0 },
                                   .output = { ARGUMENT_W, 0 },
                                   .elements = problem_w_elements(p),
                                   .splits = slots };
    solution->workspace_size = slots * reduce.elements * sizeof(float);
    solution->kernels[0].arguments[2] = reduce.parts;
    split_reduce_add(&reduce, solution);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)target;
    (void)err;
    static const enum argument_kind arguments[][3] = { { ARGUMENT_X, ARGUMENT_W, ARGUMENT_Y },
                                                       { ARGUMENT_Y, ARGUMENT_W, ARGUMENT_X },
                                                       { ARGUMENT_X, ARGUMENT_Y, ARGUMENT_W } };
    const uint16_t *v = config->values;
    const enum argument_kind *of = arguments[p->direction];
    struct cost c = cost_of(p, v);
    *ret_solution = (struct solution){ .program_count = 1, .kernel_count = 1 };
    struct solution_program *program = &ret_solution->programs[0];
    struct option_text text = { program->options, sizeof(program->options), 0 };
    program->name = "conv_grouped.cl";
    program->source = bytes_of(kernels_conv_grouped, kernels_conv_grouped_size);
    program->header_names = header_names;
    program->header_texts[0] = bytes_of(kernels_prelude, kernels_prelude_size);
    program->header_texts[1] = bytes_of(kernels_matrix_cores, kernels_matrix_cores_size);
    program->header_texts[2] = bytes_of(kernels_conv_view, kernels_conv_view_size);
    program->header_texts[3] = bytes_of(kernels_matrix_cores_amd, kernels_matrix_cores_amd_size);
    program->header_count = 4;
    write_options(p, v, &c, &text);
    ret_solution->kernels[0] = (struct solution_kernel){
        .name = kernel_names[p->direction],
        .grid = { (uint32_t)groups_of(p, &c, v), 1, 1 },
        .group = { c.warps * 32, 1, 1 },
        .shared_bytes = (uint32_t)shared_of(&c),
        .argument_count = is_for_weights(p) ? 5 : 4,
        .arguments = { { of[0], 0 },
                       { of[1], 0 },
                       { of[2], 0 },
                       { ARGUMENT_U32, p->n },
                       { ARGUMENT_U32, is_for_weights(p) ? v[SPLITS] : 0 } },
    };
    if (is_for_weights(p) && v[PARTS] * v[SPLITS] > 1)
        sum_slots(p, (uint32_t)v[PARTS] * v[SPLITS], ret_solution);
    return KILN_OK;
}

const struct solver solver_conv_grouped = {
    .name = "ConvGrouped",
    .algorithm = "ImplicitGEMM",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
