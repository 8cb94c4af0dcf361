/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_winograd.h"

#include "engine/solver/conv_implicit_gemm_paths.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"

#include <string.h>

/*
 * Winograd's minimal filtering F(m x m, 3x3): Lavin and Gray, "Fast Algorithms for Convolutional
 * Neural Networks", 2015.
 *
 * A tile of m x m outputs needs (m + 2) x (m + 2) inputs.  The outputs are coefficients of a
 * polynomial product, which is evaluated at points (as in Toom-Cook multiplication):
 *
 *     to = A' [ (G filter G') . (B' from B) ] A       "." multiplies element by element
 *
 * G, B and A are small constant matrices.  Each output tile needs one multiplication for each of
 * its (m + 2)^2 transformed elements ("points"), summed over channels:
 *
 *                 direct convolution    Winograd                saved
 *     F(2x2)      4 * 9  =  36          4 * 4 = 16              2.25 times
 *     F(4x4)      16 * 9 = 144          6 * 6 = 36              4 times
 *
 * In one dimension, F(2, 3) with inputs d0..d3 and filter g0..g2 takes 4 multiplications, not 6:
 *
 *     m1 = (d0 - d2) g0                m2 = (d1 + d2) (g0 + g1 + g2) / 2
 *     m4 = (d1 - d3) g2                m3 = (d2 - d1) (g0 - g1 + g2) / 2
 *     y0 = m1 + m2 + m3                y1 = m2 - m3 - m4
 *
 * For one point, the sum over channels of all tiles is a matrix product: filters [to][from] times
 * tiles [from][tile].  So the solution has four steps: transform the filter, transform the input
 * ("from"), compute one matrix product for each point, transform back ("to").  Backward data is the
 * same with the filter rotated by half a turn.  Backward weights transforms x and the gradient of y
 * and sums over tiles instead of channels.
 *
 * The constants below limit the workspace to what a training job can spare for one layer.
 */
#define WORKSPACE_MAX (2ull << 30)
/* Bytes of the workspace that ConvImplicitGemm's vector path may use to compute the products. */
#define WORKSPACE_OF_SPLITS (512ull << 20)
#define WORKSPACE_ALIGNMENT 256u
/* Work-group sizes for the transforms of tiles, of filters and of the filter's gradient.  A group
 * that transforms filters has one item for each channel.  On an H200, sizes of 64, 128 and 256
 * differ by less than 1 %. */
#define TRANSFORM_GROUP_SIZE 128u
#define FILTER_GROUP_SIZE 256u
#define FILTER_BLOCK_TO 32u
#define FILTER_BLOCK_FROM 8u
#define WEIGHTS_GROUP_SIZE 64u

/* TILE must stay first: cli/driver/rounding.c reads it from the text of a config. */
enum axis { TILE, OWN_AXES, STAGES = OWN_AXES + 5 };

/* The axes after the first one are those of the vector path.  Axes of the vector path that are
 * missing here always have their first value, because other values made no difference in
 * measurements. */
#define SPACE(item_values, ...)                                                             \
    {                                                                                       \
        { "tile", PERF_VALUES(2, 4) }, { "tile_m", PERF_VALUES(16, 32, 64, 128, 256) },     \
            { "tile_n", PERF_VALUES(16, 32, 64, 128, 256) },                                \
            { "tile_k", PERF_VALUES(4, 8, 16, 32) }, { "item_m", PERF_VALUES item_values }, \
            { "item_n", PERF_VALUES item_values }, { "stages", PERF_VALUES(__VA_ARGS__) },  \
            { "splits",                                                                     \
              PERF_VALUES(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256) },   \
    }
#define PIXEL_ITEMS (4, 8)
#define WEIGHT_ITEMS (4, 8, 16)
#define AXES_MAX 8

/* First index: 0 for forward and backward data, 1 for backward weights (only these have splits).
 * Second index: whether the product's copies are asynchronous. */
static const struct perf_axis axes[2][2][AXES_MAX] = {
    { SPACE(PIXEL_ITEMS, 1, 2), SPACE(PIXEL_ITEMS, 2, 3, 4) },
    { SPACE(WEIGHT_ITEMS, 1, 2), SPACE(WEIGHT_ITEMS, 2, 3, 4) },
};

static bool is_for_weights(const struct problem *p)
{
    return p->direction == DIRECTION_BACKWARD_WEIGHTS;
}

/* The products are always fp32, whatever the problem's type. */
static struct perf_space space(const struct problem *p, const struct target *target)
{
    bool weights = is_for_weights(p);
    bool async = igemm_vector_copies_are_async(TYPE_FLOAT32, target);
    return (struct perf_space){ .axes = axes[weights][async],
                                .count = weights ? AXES_MAX : AXES_MAX - 1 };
}

struct side { /* one of the two tensors with pixels */
    uint32_t channels, layout;
};

struct shape {
    /* |from| is read, |to| is divided into output tiles. */
    struct side from, to;
    struct extent out; /* of |to| */
    uint32_t tile, points;
    uint64_t tiles; /* tile slots for each image in the workspace */
};

static struct shape shape_of(const struct problem *p, uint32_t tile)
{
    struct side x = { p->c, p->x_layout }, y = { p->k, p->y_layout };
    bool backward_data = p->direction == DIRECTION_BACKWARD_DATA;
    struct shape s = { .from = backward_data ? y : x,
                       .to = backward_data ? x : y,
                       .out = backward_data ? p->in : problem_output(p),
                       .tile = tile,
                       .points = (tile + 2) * (tile + 2) };
    s.tiles = ceil_div(s.out.h, tile) * ceil_div(s.out.w, tile);
    if (x.layout == LAYOUT_CHANNELS_FIRST || y.layout == LAYOUT_CHANNELS_FIRST)
        s.tiles = ceil_div(s.tiles, 4) * 4; /* so that rows of tiles are 16-byte aligned */
    return s;
}

/* Returns the problem to solve between the transforms: a 1x1 convolution with points * groups
 * groups.  If |p| is backward weights, the problem is backward weights, too, because both operands
 * are pixels.  Otherwise its direction is backward data, which matches the layout of the
 * transformed filters. */
static struct problem product_of(const struct problem *p, const struct shape *s)
{
    struct problem product = { .direction = DIRECTION_BACKWARD_DATA,
                               .spatial_dims = 2,
                               .type = TYPE_FLOAT32,
                               .x_layout = s->to.layout,
                               .w_layout = LAYOUT_CHANNELS_FIRST,
                               .y_layout = s->from.layout,
                               .n = p->n,
                               .c = s->points * s->to.channels,
                               .k = s->points * s->from.channels,
                               .groups = s->points * p->groups,
                               .in = { 1, 1, (uint32_t)s->tiles },
                               .filter = { 1, 1, 1 },
                               .stride = { 1, 1, 1 },
                               .dilation = { 1, 1, 1 } };
    if (!is_for_weights(p))
        return product;
    product.direction = DIRECTION_BACKWARD_WEIGHTS;
    product.x_layout = p->x_layout;
    product.y_layout = p->y_layout;
    product.c = s->points * p->c;
    product.k = s->points * p->k;
    return product;
}

struct workspace { /* offsets in bytes */
    uint64_t x, w, y, product, size;
};

static uint64_t align(uint64_t at)
{
    return ceil_div(at, WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT;
}

static struct workspace workspace_of(const struct problem *product, uint64_t product_size)
{
    struct workspace w = { .w = 0 };
    w.x = align(problem_w_elements(product) * sizeof(float));
    w.y = w.x + align(problem_x_elements(product) * sizeof(float));
    w.product = w.y + align(problem_y_elements(product) * sizeof(float));
    w.size = w.product + product_size;
    return w;
}

/* Returns whether the transformed tensors can be indexed in 31 bits and fit the workspace. */
static bool fits(const struct problem *p, uint32_t tile)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct shape s = shape_of(p, tile);
    if (s.tiles >= 1u << 30 || (uint64_t)s.points * (p->c + p->k) >= 1u << 31)
        return false;
    struct problem product = product_of(p, &s);
    return problem_check(&product, &ignored) == KILN_OK &&
           workspace_of(&product, is_for_weights(p) ? WORKSPACE_OF_SPLITS : 0).size <=
               WORKSPACE_MAX;
}

static bool is_3x3(const struct problem *p)
{
    return p->spatial_dims == 2 && p->filter.h == 3 && p->filter.w == 3 && p->stride.h == 1 &&
           p->stride.w == 1 && p->dilation.h == 1 && p->dilation.w == 1;
}

static bool applies(const struct problem *p, const struct target *target)
{
    (void)target; /* the kernels compile for every family of targets */
    return p->type != TYPE_INT8 && is_3x3(p) && geometry_fits_30_bits(p) &&
           (fits(p, 2) || fits(p, 4));
}

/* These values were measured on an H200.  The first four are rates per microsecond: operations of
 * the products, operations of a direct convolution on the vector units (also for TF32), and bytes
 * of the transforms.  US_A_LAUNCH is the time of a launch. */
#define PRODUCTS_A_US 40e6
#define DIRECT_A_US 43e6
#define DIRECT_TF32_A_US 55e6
#define BYTES_A_US 3.4e6
#define US_A_LAUNCH 3.0
#define LAUNCHES_MORE 3 /* launches in addition to those of a direct convolution */

static double cost(const struct problem *p, uint32_t tile)
{
    struct shape s = shape_of(p, tile);
    struct problem product = product_of(p, &s);
    uint64_t points =
        problem_x_elements(&product) + problem_w_elements(&product) + problem_y_elements(&product);
    uint64_t pixels = problem_x_elements(p) + problem_w_elements(p) + problem_y_elements(p);
    uint64_t bytes = points * sizeof(float) + pixels * data_type_size((enum data_type)p->type);
    return problem_flops(&product) / PRODUCTS_A_US + (double)bytes / BYTES_A_US +
           LAUNCHES_MORE * US_A_LAUNCH;
}

static uint32_t best_tile(const struct problem *p)
{
    if (!fits(p, 4) || !fits(p, 2))
        return fits(p, 4) ? 4 : 2;
    return cost(p, 4) < cost(p, 2) ? 4 : 2;
}

/* Rows of a direct convolution's smallest tile, on the vector units and in TF32. */
#define ROWS_MIN 16u
#define TF32_ROWS_MIN 32u
/* Maximum number of rows of a product for which direct_cost counts idle rows, in forward and
 * backward data with one group. */
#define ROWS_FEW 4u
#define STEP 8.0           /* products of a step */
#define STEPS_OF_ENDS 20.0 /* to begin and end a tile, as a number of steps */

/*
 * Estimates the time of a direct convolution by the vector path.  If there are fewer rows than the
 * smallest tile has, its other rows are idle.  If a group has fewer channels than a step has
 * products, a tile also has a short sum, and begins and ends take a larger part of its time.  With
 * ROWS_MIN, TF32_ROWS_MIN and ROWS_FEW, the faster solver was chosen in 45 of 46 problems of
 * networks on an H200.
 */
static double direct_cost(const struct problem *p, const struct target *target)
{
    bool has_tf32 = igemm_uses_tf32(p, target);
    uint32_t rows = (p->direction == DIRECTION_BACKWARD_DATA ? p->c : p->k) / p->groups;
    uint32_t least = has_tf32 ? TF32_ROWS_MIN : ROWS_MIN;
    double direct = problem_flops(p) / (has_tf32 ? DIRECT_TF32_A_US : DIRECT_A_US);
    bool is_for_weights = p->direction == DIRECTION_BACKWARD_WEIGHTS;
    bool is_few = p->groups > 1 ? !is_for_weights : is_for_weights || rows <= ROWS_FEW;
    if (rows >= least || !is_few)
        return has_tf32 ? 0 : direct; /* matrix cores gain nothing from fewer products */
    double sum = problem_flops(p) / 2 / (double)geometry_output_elements(p);
    double ends = p->groups > 1 && rows < STEP ? STEPS_OF_ENDS * STEP / sum : 0;
    return direct * least / rows * (1 + ends);
}

/* Favoured only if the direct solution would run on the vector units, or would leave most of the
 * matrix cores idle.  For OpenCL devices, the gain is unknown. */
static bool is_favoured(const struct problem *p, const struct target *target)
{
    const struct igemm_path *direct = igemm_path_for(p, target);
    return target->family != TARGET_OPENCL && (!direct || direct == &igemm_path_vector) &&
           cost(p, best_tile(p)) < direct_cost(p, target);
}

static const struct perf_axis *find_axis(const struct perf_space *in, const char *name,
                                         uint32_t *ret_index)
{
    for (uint32_t i = 0; i < in->count; i++) {
        if (strcmp(in->axes[i].name, name) == 0) {
            *ret_index = i;
            return &in->axes[i];
        }
    }
    return NULL;
}

static bool product_config(const struct problem *product, const struct target *target,
                           const struct perf_config *config, struct perf_config *ret_config)
{
    struct perf_space theirs = igemm_path_vector.space(product, target);
    struct perf_space ours = space(product, target);
    ret_config->count = theirs.count;
    for (uint32_t i = 0; i < theirs.count; i++) {
        uint32_t at;
        bool is_ours = find_axis(&ours, theirs.axes[i].name, &at) != NULL;
        ret_config->values[i] = is_ours ? config->values[at] : theirs.axes[i].values[0];
        if (!perf_axis_has(&theirs.axes[i], ret_config->values[i]))
            return false;
    }
    return true;
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    struct perf_config theirs;
    if (!fits(p, config->values[TILE]))
        return false;
    struct shape s = shape_of(p, config->values[TILE]);
    struct problem product = product_of(p, &s);
    return product_config(&product, target, config, &theirs) &&
           igemm_path_vector.config_is_valid(&product, target, &theirs);
}

/* Tilings of the product, best first.  An item computes item_m x item_n results. */
struct tiling {
    uint16_t m, n, k, item_m, item_n;
};
static const struct tiling tilings[] = {
    { 128, 64, 16, 8, 8 }, { 64, 128, 16, 8, 8 }, { 64, 64, 16, 8, 4 }, { 64, 64, 8, 8, 4 },
    { 32, 64, 8, 4, 4 },   { 32, 32, 8, 4, 4 },   { 16, 64, 4, 4, 4 },
};
#define TILINGS (sizeof(tilings) / sizeof(tilings[0]))
/* Index of the first tiling to consider for channels-last tensors.  Tiling 0 was the fastest only
 * with channels-first tensors. */
#define FIRST_CHANNELS_LAST 1
/* Number of work groups needed to fill a large GPU twice. */
#define GROUPS_WANTED 264u
#define STAGES_WANTED 2

/* Chooses the first tiling that leaves at most a fifth of its rows idle and has enough work groups.
 * The last tiling is always valid. */
static void choose_tiling(const struct problem *p, const struct target *target,
                          struct perf_config *config)
{
    struct shape s = shape_of(p, config->values[TILE]);
    uint64_t rows = s.to.channels / p->groups, columns = s.tiles * p->n;
    for (size_t i = s.to.layout == LAYOUT_CHANNELS_LAST ? FIRST_CHANNELS_LAST : 0; i < TILINGS;
         i++) {
        const struct tiling *t = &tilings[i];
        uint64_t used = ceil_div(rows, t->m) * ceil_div(columns, t->n) * s.points * p->groups;
        memcpy(&config->values[OWN_AXES], t, sizeof(*t));
        if (config_is_valid(p, target, config) && ceil_div(rows, t->m) * t->m * 4 <= rows * 5 &&
            used >= GROUPS_WANTED)
            return;
    }
}

/* Takes the values that the vector path would choose for the product, each rounded down to a value
 * on this solver's axis. */
static void choose_as_product(const struct problem *p, const struct target *target,
                              struct perf_config *config)
{
    struct perf_space ours = space(p, target);
    struct shape s = shape_of(p, config->values[TILE]);
    struct problem product = product_of(p, &s);
    struct perf_space theirs = igemm_path_vector.space(&product, target);
    struct perf_config chosen;
    igemm_path_vector.choose_config(&product, target, &chosen);
    for (uint32_t i = 0; i < theirs.count; i++) {
        uint32_t at;
        const struct perf_axis *axis = find_axis(&ours, theirs.axes[i].name, &at);
        for (uint32_t v = 0; axis && v < axis->count; v++)
            if (axis->values[v] <= chosen.values[i])
                config->values[at] = axis->values[v];
    }
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    struct perf_config config = { .count = space(p, target).count };
    config.values[TILE] = (uint16_t)best_tile(p);
    config.values[STAGES] = STAGES_WANTED;
    if (is_for_weights(p))
        choose_as_product(p, target, &config);
    else
        choose_tiling(p, target, &config);
    *ret_config = config;
}

static const char *const header_names[] = { "kiln/prelude.h" };

/* The values of KILN_STEP in the kernels. */
enum step { STEP_FILTER, STEP_FROM, STEP_TO, STEP_GRADIENT, STEP_WEIGHTS };

static bool is_of_filters(enum step step) { return step == STEP_FILTER || step == STEP_WEIGHTS; }

/* Defines no image sizes, so that layers of different sizes share the program. */
static void define_filter(struct option_text *text, const struct problem *p)
{
    option_define(text, "DIRECTION", p->direction);
    option_define(text, "TYPE", p->type);
    option_define(text, "C", p->c);
    option_define(text, "K", p->k);
    option_define(text, "GROUPS", p->groups);
    option_define(text, "W_LAST", p->w_layout == LAYOUT_CHANNELS_LAST);
}

static uint32_t add_program(const struct problem *p, const struct shape *s, enum step step,
                            struct solution *solution)
{
    struct solution_program *program = &solution->programs[solution->program_count];
    *program = (struct solution_program){
        .name = "conv_winograd.cl",
        .source = bytes_of(kernels_conv_winograd, kernels_conv_winograd_size),
        .header_names = header_names,
        .header_texts = { bytes_of(kernels_prelude, kernels_prelude_size) },
        .header_count = 1,
    };
    struct option_text text = { .data = program->options, .size = sizeof(program->options) };
    option_define(&text, "STEP", step);
    option_define(&text, "TILE", s->tile);
    if (is_of_filters(step)) {
        define_filter(&text, p);
    } else {
        option_define_problem(&text, p);
        option_define(&text, "TILES", (uint32_t)s->tiles);
        option_define(&text, "GROUP_SIZE", TRANSFORM_GROUP_SIZE);
    }
    return solution->program_count++;
}

static void add_filter(const struct problem *p, const struct shape *s, uint64_t points,
                       struct solution *solution)
{
    bool forward = p->direction == DIRECTION_FORWARD, weights = is_for_weights(p);
    uint64_t group_k = p->k / p->groups, group_c = p->c / p->groups;
    uint64_t groups = p->groups * ceil_div(group_k, forward ? FILTER_BLOCK_TO : FILTER_BLOCK_FROM) *
                      ceil_div(group_c, forward ? FILTER_BLOCK_FROM : FILTER_BLOCK_TO);
    if (weights)
        groups = ceil_div(p->k * group_c, WEIGHTS_GROUP_SIZE);
    struct solution_argument w = { ARGUMENT_W, 0 }, at = { ARGUMENT_WORKSPACE, points };
    solution->kernels[solution->kernel_count++] = (struct solution_kernel){
        .name = weights ? "conv_winograd_weights" : "conv_winograd_filter",
        .program = add_program(p, s, weights ? STEP_WEIGHTS : STEP_FILTER, solution),
        .grid = { (uint32_t)groups, 1, 1 },
        .group = { weights ? WEIGHTS_GROUP_SIZE : FILTER_GROUP_SIZE, 1, 1 },
        .argument_count = 2,
        .arguments = { weights ? at : w, weights ? w : at },
    };
}

/* A transform of pixels of x or y to points, or of points to pixels. */
struct transform {
    enum step step;
    bool is_of_x; /* false: a transform of y */
};

static void add_transform(const struct problem *p, const struct shape *s,
                          const struct transform *transform, const struct workspace *w,
                          struct solution *solution)
{
    enum step step = transform->step;
    bool is_of_x = transform->is_of_x;
    struct solution_argument pixels = { is_of_x ? ARGUMENT_X : ARGUMENT_Y, 0 }, points;
    bool is_product_x = is_for_weights(p) ? is_of_x : step == STEP_TO;
    points = (struct solution_argument){ ARGUMENT_WORKSPACE, is_product_x ? w->x : w->y };
    uint64_t items = p->n * s->tiles * (is_of_x ? p->c : p->k);
    solution->kernels[solution->kernel_count++] = (struct solution_kernel){
        .name = step == STEP_TO ? "conv_winograd_to" : "conv_winograd_from",
        .program = add_program(p, s, step, solution),
        .grid = { (uint32_t)ceil_div(items, TRANSFORM_GROUP_SIZE), 1, 1 },
        .group = { TRANSFORM_GROUP_SIZE, 1, 1 },
        .argument_count = 3,
        .arguments = { step == STEP_TO ? points : pixels,
                       step == STEP_TO ? pixels : points,
                       { ARGUMENT_U32, p->n } },
    };
}

static void add_product(const struct solution *product, const struct workspace *w,
                        struct solution *solution)
{
    const uint64_t places[] = { [ARGUMENT_X] = w->x,
                                [ARGUMENT_W] = w->w,
                                [ARGUMENT_Y] = w->y,
                                [ARGUMENT_WORKSPACE] = w->product };
    uint32_t first = solution->program_count;
    for (uint32_t i = 0; i < product->program_count; i++)
        solution->programs[solution->program_count++] = product->programs[i];
    for (uint32_t i = 0; i < product->kernel_count; i++) {
        struct solution_kernel *added = &solution->kernels[solution->kernel_count++];
        *added = product->kernels[i];
        added->program += first;
        for (uint32_t a = 0; a < added->argument_count; a++) {
            struct solution_argument *argument = &added->arguments[a];
            if (argument->kind <= ARGUMENT_WORKSPACE)
                *argument = (struct solution_argument){ ARGUMENT_WORKSPACE,
                                                        argument->value + places[argument->kind] };
        }
    }
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    struct shape s = shape_of(p, config->values[TILE]);
    struct problem product = product_of(p, &s);
    struct solution products;
    struct perf_config theirs;
    if (!product_config(&product, target, config, &theirs))
        return kiln_fail(err, KILN_INVALID, "the products of this perf config do not fit");
    enum kiln_code rc = igemm_path_vector.solve(&product, target, &theirs, &products, err);
    if (rc)
        return rc;
    struct workspace w = workspace_of(&product, products.workspace_size);
    *ret_solution = (struct solution){ .workspace_size = w.size };
    if (is_for_weights(p)) {
        add_transform(p, &s, &(struct transform){ STEP_FROM, true }, &w, ret_solution);
        add_transform(p, &s, &(struct transform){ STEP_GRADIENT, false }, &w, ret_solution);
        add_product(&products, &w, ret_solution);
        add_filter(p, &s, w.w, ret_solution);
    } else {
        bool reads_x = p->direction == DIRECTION_FORWARD;
        add_filter(p, &s, w.w, ret_solution);
        add_transform(p, &s, &(struct transform){ STEP_FROM, reads_x }, &w, ret_solution);
        add_product(&products, &w, ret_solution);
        add_transform(p, &s, &(struct transform){ STEP_TO, !reads_x }, &w, ret_solution);
    }
    return KILN_OK;
}

const struct solver solver_conv_winograd = {
    .name = "ConvWinograd",
    .algorithm = "Winograd",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
