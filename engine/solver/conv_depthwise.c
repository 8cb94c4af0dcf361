/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_depthwise.h"

#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"
#include "engine/solver/split_reduce.h"

#include <math.h>

/*
 * A depthwise convolution does few multiply-adds for each element, so memory bandwidth limits it.
 * The idea is to load each element once and to use it from registers as often as possible:
 *
 * Forward and backward data: a work item computes a block of ROWS x COLUMNS outputs of one channel
 * (or of VECTOR neighbouring channels, where channels come last).  Neighbouring outputs share most
 * of their inputs.  For example, a 3x3 filter and a block of 2 x 4 outputs:
 *
 *       inputs  4 x 6 = 24 loads instead of 8 * 9 = 72
 *
 * Backward weights: a weight's gradient is a sum over all pixels of all images.  An item walks over
 * strips of COLUMNS pixels of y and keeps the sums of a block of taps in registers.  SPLITS work
 * groups each compute a partial sum; split_reduce.h adds the parts up.
 *
 * A work group has LANES items side by side along the channels and GROUP / LANES along the pixels.
 * Where channels come last, lanes thus read consecutive addresses.  Where they come first, LANES
 * and VECTOR are 1 and neighbouring items read neighbouring pixels.
 *
 * REGISTERS_MAX counts the floats that an item keeps at a time, without addresses.  Within this
 * limit an item needs fewer than 128 registers, so two groups of 256 items fit a compute unit of
 * any target.
 */
#define REGISTERS_MAX 104u
#define SUMS_MAX 48u
/* Maximum number of multiply-adds in an unrolled loop.  With more, loops would exceed the
 * instruction caches and take seconds to compile.  A loop that tests for each input and output
 * whether a tap connects them may have twice this number of tests. */
#define UNROLLED_MAX 4096u
#define WORKSPACE_MAX (512ull << 20)
/* Number of items needed to fill a large GPU several times. */
#define ITEMS_WANTED (1u << 17)
/* Number of items needed to hide latency if blocks have two columns.  Such blocks use more
 * registers, so fewer items run at the same time. */
#define ITEMS_FOR_WIDE (1u << 19)
/* Maximum number of taps in a plane of the filter.  With more, an item that computes four channels
 * does not have enough registers for all weights. */
#define BLOCK_TAPS_MAX 16u
/* For backward weights with channels first: the minimum number of strips that an item sums.  It
 * limits the number of splits. */
#define STRIPS_OF_ITEM 7ull

enum axis { COLUMNS, ROWS, VECTOR, LANES, GROUP, AXES, SPLITS = ROWS };

/* First index: 0 for forward and backward data, 1 for backward weights.  Second index: 0 for
 * channels first, 1 for channels last. */
static const struct perf_axis axes[2][2][AXES] = {
    { { { "columns", PERF_VALUES(1, 2, 3, 4, 5, 6, 7, 8) },
        { "rows", PERF_VALUES(1, 2, 3, 4, 5, 6, 7, 8, 14) },
        { "vector", PERF_VALUES(1) },
        { "lanes", PERF_VALUES(1) },
        { "group", PERF_VALUES(32, 64, 128, 256) } },
      { { "columns", PERF_VALUES(1, 2, 3, 4, 6, 7, 8) },
        { "rows", PERF_VALUES(1, 2, 3, 4, 6, 8) },
        { "vector", PERF_VALUES(1, 2, 4, 8) },
        { "lanes", PERF_VALUES(4, 8, 16, 32) },
        { "group", PERF_VALUES(64, 128, 256) } } },
    { { { "columns", PERF_VALUES(1, 2, 3, 4, 5, 6, 7, 8) },
        { "splits", PERF_VALUES(1, 2, 4, 8, 16, 32, 64, 128) },
        { "vector", PERF_VALUES(1) },
        { "lanes", PERF_VALUES(1) },
        { "group", PERF_VALUES(32, 64, 128, 256, 512) } },
      { { "columns", PERF_VALUES(1, 2, 4, 7, 8) },
        { "splits", PERF_VALUES(1, 2, 4, 8, 16, 32, 64, 128, 256, 512) },
        { "vector", PERF_VALUES(1, 2, 4, 8) },
        { "lanes", PERF_VALUES(4, 8, 16, 32) },
        { "group", PERF_VALUES(64, 128, 256) } } },
};

static bool is_for_weights(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_WEIGHTS;
}

static bool is_last(const struct problem *p) { return p->x_layout == LAYOUT_CHANNELS_LAST; }

/* If x has a single channel, the solvers for ordinary convolutions apply, too.  This solver is then
 * favoured only for forward with few taps, which takes less time to multiply than to write y. */
static bool is_favoured(const struct problem *p, const struct target *target)
{
    uint64_t taps = (uint64_t)p->filter.d * p->filter.h * p->filter.w;
    (void)target;
    return p->c > 1 || (p->direction == DIRECTION_FORWARD && taps <= BLOCK_TAPS_MAX);
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    (void)target;
    return (struct perf_space){ .axes = axes[is_for_weights(p)][is_last(p)], .count = AXES };
}

static uint32_t output_channels(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_DATA ? p->c : p->k;
}

static struct extent output_extent(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_DATA ? p->in : problem_output(p);
}

/* Returns how many inputs |count| neighbouring outputs read along one axis. */
static uint64_t window(const struct problem *p, uint64_t count, uint32_t filter, uint32_t stride,
                       uint32_t dilation)
{
    uint64_t reach = (uint64_t)(filter - 1) * dilation;
    return p->direction == DIRECTION_BACKWARD_DATA ? (count - 1 + reach) / stride + 2
                                                   : (count - 1) * stride + reach + 1;
}

struct tap_block {
    uint32_t rows, columns;
};

/* Divides |whole| into as few parts of at most |most| as possible, of nearly equal size.  Returns
 * the size of the largest part.  Example: 7 in parts of at most 5 gives 4 (and 3). */
static uint32_t part_evenly(uint32_t whole, uint32_t most)
{
    uint32_t parts = (uint32_t)ceil_div(whole, most);
    return (uint32_t)ceil_div(whole, parts);
}

/* Chooses the block of taps of an item.  A row of the block takes at most a third of SUMS_MAX, so
 * that a block can have several rows.  The rows of a block share each loaded row of y. */
static struct tap_block tap_block_of(const struct problem *p, uint32_t vector)
{
    struct tap_block block = { .columns = part_evenly(p->filter.w, SUMS_MAX / 3 / vector) };
    block.rows = part_evenly(p->filter.d * p->filter.h, SUMS_MAX / (block.columns * vector));
    return block;
}

static uint64_t pixels_met(const struct problem *p, uint32_t columns, struct tap_block taps)
{
    if (columns == 1)
        return taps.columns;
    return (uint64_t)(columns - 1) * p->stride.w + (uint64_t)(taps.columns - 1) * p->dilation.w + 1;
}

static uint64_t channel_blocks(uint32_t channels, const struct perf_config *config)
{
    return ceil_div(channels, (uint64_t)config->values[LANES] * config->values[VECTOR]);
}

static uint32_t places(const struct perf_config *config)
{
    return config->values[GROUP] / config->values[LANES];
}

static uint64_t strips(const struct problem *p, const struct perf_config *config)
{
    struct extent out = problem_output(p);
    return (uint64_t)p->n * out.d * out.h * ceil_div(out.w, config->values[COLUMNS]);
}

static uint64_t parts_size(const struct problem *p, uint64_t splits)
{
    return splits > 1 ? splits * problem_w_elements(p) * sizeof(float) : 0;
}

static uint64_t blocks(const struct problem *p, const struct perf_config *config)
{
    struct extent out = output_extent(p);
    return (uint64_t)p->n * out.d * ceil_div(out.h, config->values[ROWS]) *
           ceil_div(out.w, config->values[COLUMNS]);
}

static uint64_t gather_groups(const struct problem *p, const struct perf_config *config)
{
    return channel_blocks(output_channels(p), config) * ceil_div(blocks(p, config), places(config));
}

static uint64_t weights_groups(const struct problem *p, const struct perf_config *config)
{
    struct tap_block taps = tap_block_of(p, config->values[VECTOR]);
    return channel_blocks(p->k, config) * ceil_div(p->filter.w, taps.columns) *
           ceil_div((uint64_t)p->filter.d * p->filter.h, taps.rows) * config->values[SPLITS];
}

static bool is_launchable(const struct problem *p, const struct target *target,
                          const struct perf_config *config)
{
    uint64_t groups = is_for_weights(p) ? weights_groups(p, config) : gather_groups(p, config);
    return geometry_is_launchable(target, groups, config->values[GROUP]);
}

static bool gather_is_valid(const struct problem *p, const struct perf_config *config)
{
    uint64_t columns = config->values[COLUMNS], rows = config->values[ROWS];
    uint64_t vector = config->values[VECTOR], taps = (uint64_t)p->filter.h * p->filter.w;
    struct extent out = output_extent(p);
    if (rows == 1 && columns == 1)
        return true;
    if (rows / 2 >= out.h || columns / 2 >= out.w)
        return rows == 1 && columns == 1;
    if (p->direction == DIRECTION_BACKWARD_DATA && (rows % p->stride.h || columns % p->stride.w))
        return false;
    uint64_t met_h = window(p, rows, p->filter.h, p->stride.h, p->dilation.h);
    uint64_t met_w = window(p, columns, p->filter.w, p->stride.w, p->dilation.w);
    return taps <= REGISTERS_MAX && met_h <= UNROLLED_MAX && met_w <= UNROLLED_MAX &&
           (rows * columns + taps + met_w) * vector <= REGISTERS_MAX &&
           rows * columns * taps * vector <= UNROLLED_MAX &&
           rows * columns * met_h * met_w <= 2 * UNROLLED_MAX;
}

static bool weights_is_valid(const struct problem *p, const struct perf_config *config)
{
    uint64_t columns = config->values[COLUMNS], vector = config->values[VECTOR];
    uint64_t splits = config->values[SPLITS];
    struct tap_block taps = tap_block_of(p, config->values[VECTOR]);
    uint64_t met = pixels_met(p, config->values[COLUMNS], taps);
    if (columns > 1 && columns / 2 >= problem_output(p).w)
        return false;
    if (splits > 1 && splits * places(config) > 2 * strips(p, config))
        return false;
    if (parts_size(p, splits) > WORKSPACE_MAX)
        return false;
    return (taps.rows * taps.columns + columns + met) * vector <= REGISTERS_MAX;
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    uint32_t vector = config->values[VECTOR], lanes = config->values[LANES];
    uint32_t channels = is_for_weights(p) ? p->k : output_channels(p);
    if (channels % vector || p->c % vector)
        return false;
    if (lanes / 2 * vector >= channels && lanes > axes[0][is_last(p)][LANES].values[0])
        return false; /* more than half of the items would be idle */
    if (!is_launchable(p, target, config))
        return false;
    return is_for_weights(p) ? weights_is_valid(p, config) : gather_is_valid(p, config);
}

/* Returns whether items sum one channel instead of four.  With four, an item has registers for only
 * a few taps.  A large filter then needs several blocks of taps, and x and y are read again for
 * each block.  One channel is enough in fp32: neighbouring items together read whole sectors of
 * memory. */
static bool sums_one_channel(const struct problem *p)
{
    return is_for_weights(p) && p->type == TYPE_FLOAT32 &&
           (uint64_t)p->filter.h * p->filter.w > BLOCK_TAPS_MAX;
}

static uint16_t widest_vector(const struct problem *p)
{
    uint16_t vector = is_last(p) && !sums_one_channel(p) ? 4 : 1;
    while (p->c % vector || p->k % vector)
        vector /= 2;
    return vector;
}

static uint16_t lanes_for(const struct problem *p, uint32_t vector)
{
    uint16_t lanes = is_last(p) ? 32 : 1;
    uint32_t channels = is_for_weights(p) ? p->k : output_channels(p);
    while (lanes > 4 && lanes / 2 * vector >= channels)
        lanes /= 2;
    return lanes;
}

static struct perf_config first_config(const struct problem *p)
{
    struct perf_config config = { .count = AXES };
    config.values[VECTOR] = widest_vector(p);
    config.values[LANES] = lanes_for(p, config.values[VECTOR]);
    config.values[GROUP] = 128;
    config.values[ROWS] = 1; /* for backward weights, this axis is SPLITS */
    config.values[COLUMNS] = 1;
    if (is_for_weights(p) && !is_last(p))
        config.values[GROUP] = p->stride.w > 1 ? 256 : 64;
    return config;
}

static bool applies(const struct problem *p, const struct target *target)
{
    if (p->groups != p->c || p->type == TYPE_INT8 || p->x_layout != p->y_layout ||
        !geometry_fits_30_bits(p))
        return false;
    struct perf_config first = first_config(p);
    return is_launchable(p, target, &first);
}

/* Blocks of outputs, the fastest on an H200 first.  A block is used only if at least |items| items
 * are needed to compute all outputs. */
struct wanted_block {
    uint16_t rows, columns;
    uint32_t items;
};
#define BLOCKS_WANTED 7
static const struct wanted_block first_blocks[BLOCKS_WANTED] = {
    { 7, 2, ITEMS_FOR_WIDE },
    { 4, 2, ITEMS_FOR_WIDE },
    { 7, 1, ITEMS_WANTED },
    { 8, 1, ITEMS_WANTED },
    { 4, 1, ITEMS_WANTED },
    { 2, 1, ITEMS_WANTED },
    { 1, 1, 0 },
};
static const struct wanted_block first_blocks_strided[BLOCKS_WANTED] = {
    { 8, 1, ITEMS_WANTED },
    { 7, 1, ITEMS_WANTED },
    { 4, 1, ITEMS_WANTED },
    { 4, 2, ITEMS_WANTED },
    { 2, 2, ITEMS_WANTED },
    { 3, 3, ITEMS_WANTED },
    { 1, 1, 0 },
};
static const struct wanted_block last_blocks[BLOCKS_WANTED] = {
    { 2, 4, ITEMS_WANTED },
    { 4, 2, ITEMS_WANTED },
    { 2, 2, ITEMS_WANTED },
    { 3, 3, ITEMS_WANTED },
    { 2, 1, ITEMS_WANTED },
    { 1, 2, ITEMS_WANTED },
    { 1, 1, 0 },
};

static uint64_t round_up(uint64_t whole, uint64_t part) { return ceil_div(whole, part) * part; }

static bool covers_well(uint64_t plane, uint64_t computed) { return computed * 6 <= plane * 7; }

static const struct wanted_block *wanted_blocks(const struct problem *p)
{
    if (is_last(p))
        return last_blocks;
    return p->stride.h > 1 || p->stride.w > 1 ? first_blocks_strided : first_blocks;
}

/* Estimates the number of instructions for one plane of the filter in NVRTC's code.  It counts an
 * address, a test and a conversion for each element, the multiply-adds, the loads of weights from
 * shared memory, and the stores. */
static double estimate_item(const struct problem *p, const struct perf_config *config)
{
    double columns = config->values[COLUMNS], rows = config->values[ROWS];
    double vector = config->values[VECTOR], taps = (double)p->filter.h * p->filter.w;
    double met =
        (double)window(p, config->values[ROWS], p->filter.h, p->stride.h, p->dilation.h) *
        (double)window(p, config->values[COLUMNS], p->filter.w, p->stride.w, p->dilation.w);
    double reached = taps;
    if (p->direction == DIRECTION_BACKWARD_DATA)
        reached /= (double)p->stride.h * p->stride.w;
    return 60 + met * (6 + vector) + rows * columns * (reached * vector + 3 + vector) +
           taps * vector;
}

/*
 * Chooses a block of one or two channels for a large filter, whose weights for four channels would
 * exceed the registers.  With fewer channels, registers are left for a block of outputs, which
 * loads each element less often.  If there are fewer than ITEMS_WANTED items, a part of the GPU is
 * idle, so the time is estimated for ITEMS_WANTED items.  Blocks have at most NARROW_ROWS_MAX rows,
 * because NVRTC uses 160 to 220 registers for some larger blocks.
 */
#define NARROW_ROWS_MAX 4

static void choose_narrow_block(const struct problem *p, const struct target *target,
                                struct perf_config *config)
{
    const struct perf_axis *all = axes[0][1];
    struct perf_config best = *config;
    double least = INFINITY;
    for (uint32_t i = 0; i < 2 * all[ROWS].count * all[COLUMNS].count; i++) {
        struct perf_config next = *config;
        next.values[VECTOR] = 2 - i % 2;
        next.values[ROWS] = all[ROWS].values[i / 2 % all[ROWS].count];
        next.values[COLUMNS] = all[COLUMNS].values[i / 2 / all[ROWS].count];
        next.values[LANES] = lanes_for(p, next.values[VECTOR]);
        if (next.values[ROWS] * next.values[COLUMNS] == 1 || next.values[ROWS] > NARROW_ROWS_MAX ||
            !config_is_valid(p, target, &next))
            continue;
        double items = (double)blocks(p, &next) * output_channels(p) / next.values[VECTOR];
        double cost = estimate_item(p, &next) * fmax(items, ITEMS_WANTED);
        if (cost < least) {
            least = cost;
            best = next;
        }
    }
    *config = best;
}

static void choose_block(const struct problem *p, const struct target *target,
                         struct perf_config *config)
{
    const struct wanted_block *wanted = wanted_blocks(p);
    struct extent out = output_extent(p);
    uint64_t vectors = output_channels(p) / config->values[VECTOR];
    for (size_t i = 0; i < BLOCKS_WANTED; i++) {
        config->values[ROWS] = wanted[i].rows;
        config->values[COLUMNS] = wanted[i].columns;
        bool covers = covers_well((uint64_t)out.h * out.w, round_up(out.h, wanted[i].rows) *
                                                               round_up(out.w, wanted[i].columns));
        if ((covers || is_last(p)) && config_is_valid(p, target, config) &&
            blocks(p, config) * vectors >= wanted[i].items)
            break;
    }
    bool is_single = config->values[ROWS] * config->values[COLUMNS] == 1;
    if (is_single && is_last(p) && p->filter.h * p->filter.w > BLOCK_TAPS_MAX)
        choose_narrow_block(p, target, config);
}

static void choose_columns(const struct problem *p, const struct target *target,
                           struct perf_config *config)
{
    static const uint16_t dense[] = { 7, 8, 5, 4, 2, 1 }, strided[] = { 3, 2, 1 };
    static const uint16_t last[] = { 2, 1 }, last_single[] = { 7, 8, 4, 2, 1 };
    bool is_strided = p->stride.w > 1;
    bool is_single = is_last(p) && !is_strided && sums_one_channel(p);
    bool is_short = is_last(p) && !is_single;
    const uint16_t *columns = is_single    ? last_single
                              : is_short   ? last
                              : is_strided ? strided
                                           : dense;
    uint32_t w = problem_output(p).w;
    for (;; columns++) {
        config->values[COLUMNS] = *columns;
        bool covers = is_short || is_strided || covers_well(w, round_up(w, *columns));
        if (*columns == 1 || (covers && config_is_valid(p, target, config)))
            return;
    }
}

/* Doubles the number of splits until the items fill the GPU.  Stops earlier if each item would have
 * so few strips that more splits cost more time to add up than they save. */
static void choose_splits(const struct problem *p, const struct target *target,
                          struct perf_config *config)
{
    uint64_t enough = is_last(p) ? ITEMS_WANTED : ITEMS_WANTED * 2;
    choose_columns(p, target, config);
    uint64_t items = channel_blocks(p->k, config) * config->values[GROUP];
    uint64_t parts =
        ceil_div(strips(p, config), (is_last(p) ? 4ull : STRIPS_OF_ITEM) * places(config));
    struct perf_config next = *config;
    next.values[SPLITS] *= 2;
    while (config->values[SPLITS] < (is_last(p) ? 512 : 128) && next.values[SPLITS] <= parts &&
           config->values[SPLITS] * items < enough &&
           parts_size(p, next.values[SPLITS]) <= WORKSPACE_MAX && is_launchable(p, target, &next)) {
        *config = next;
        next.values[SPLITS] *= 2;
    }
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    struct perf_config config = first_config(p);
    if (is_for_weights(p))
        choose_splits(p, target, &config);
    else
        choose_block(p, target, &config);
    *ret_config = config;
}

static const char *const header_names[] = { "kiln/prelude.h" };

static struct option_text add_program(struct solution *solution, const struct problem *p,
                                      const struct perf_config *config)
{
    struct solution_program *added = &solution->programs[solution->program_count++];
    *added = (struct solution_program){
        .name = "conv_depthwise.cl",
        .source = bytes_of(kernels_conv_depthwise, kernels_conv_depthwise_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size) },
        .header_count = 1,
    };
    struct option_text text = { .data = added->options, .size = sizeof(added->options) };
    option_define_problem(&text, p);
    option_define(&text, "COLUMNS", config->values[COLUMNS]);
    option_define(&text, "VECTOR", config->values[VECTOR]);
    option_define(&text, "LANES", config->values[LANES]);
    option_define(&text, "GROUP_SIZE", config->values[GROUP]);
    return text;
}

static void solve_gather(const struct problem *p, const struct perf_config *config,
                         struct solution *solution)
{
    static const char *const names[] = { "conv_depthwise_forward", "conv_depthwise_backward_data" };
    struct option_text text = add_program(solution, p, config);
    option_define(&text, "ROWS", config->values[ROWS]);
    solution->kernels[solution->kernel_count++] = (struct solution_kernel){
        .name = names[p->direction],
        .grid = { (uint32_t)gather_groups(p, config), 1, 1 },
        .group = { config->values[GROUP], 1, 1 },
        .argument_count = 4,
        .arguments = { { ARGUMENT_X, 0 },
                       { ARGUMENT_W, 0 },
                       { ARGUMENT_Y, 0 },
                       { ARGUMENT_U32, p->n } },
    };
}

static void solve_weights(const struct problem *p, const struct perf_config *config,
                          struct solution *solution)
{
    uint32_t splits = config->values[SPLITS];
    struct tap_block taps = tap_block_of(p, config->values[VECTOR]);
    struct option_text text = add_program(solution, p, config);
    option_define(&text, "TAP_ROWS", taps.rows);
    option_define(&text, "TAP_COLUMNS", taps.columns);
    option_define(&text, "IS_SPLIT", splits > 1);
    solution->kernels[solution->kernel_count++] = (struct solution_kernel){
        .name = "conv_depthwise_backward_weights",
        .grid = { (uint32_t)weights_groups(p, config), 1, 1 },
        .group = { config->values[GROUP], 1, 1 },
        .argument_count = 5,
        .arguments = { { ARGUMENT_X, 0 },
                       { ARGUMENT_Y, 0 },
                       { splits > 1 ? ARGUMENT_WORKSPACE : ARGUMENT_W, 0 },
                       { ARGUMENT_U32, p->n },
                       { ARGUMENT_U32, splits } },
    };
    if (splits == 1)
        return;
    struct split_reduce reduce = { .type = p->type,
                                   .parts = { ARGUMENT_WORKSPACE, 0 },
                                   .output = { ARGUMENT_W, 0 },
                                   .elements = problem_w_elements(p),
                                   .splits = splits };
    solution->workspace_size = parts_size(p, splits);
    split_reduce_add(&reduce, solution);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)target;
    (void)err;
    *ret_solution = (struct solution){ 0 };
    if (is_for_weights(p))
        solve_weights(p, config, ret_solution);
    else
        solve_gather(p, config, ret_solution);
    return KILN_OK;
}

const struct solver solver_conv_depthwise = {
    .name = "ConvDepthwise",
    .algorithm = "Direct",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
