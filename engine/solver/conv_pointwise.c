/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_pointwise.h"

#include "engine/solver/geometry.h"
#include "engine/solver/options.h"
#include "engine/solver/sources.h"

/*
 * If few channels are read (SPREAD), an item computes CHANNELS of the channels of the result.  If
 * few channels are computed (GATHER), PARTS items share the channels that are read.  If both are
 * few, the problem counts as SPREAD.
 */
enum axis { CHANNELS, VECTOR, ITEMS, AXES, PARTS = CHANNELS };
enum { SPREAD, GATHER };

static const struct perf_axis axes[2][AXES] = {
    { { "channels", PERF_VALUES(1, 2, 4, 8, 16, 32) },
      { "vector", PERF_VALUES(1, 4) },
      { "items", PERF_VALUES(64, 128, 256) } },
    { { "parts", PERF_VALUES(1, 2, 4, 8, 16) },
      { "vector", PERF_VALUES(1, 4) },
      { "items", PERF_VALUES(64, 128, 256) } },
};

/* Maximum number of channels that are read (SPREAD) or computed (GATHER).  An item keeps a value of
 * each of them in registers. */
#define FEW_MAX 8u
/* Minimum number of channels for which ConvImplicitGemm is faster.  It copies 16 bytes (8 channels
 * of 16 bits) at a time, so it pads fewer channels. */
#define TOO_WIDE 8u
/* Number of items needed to fill a large GPU. */
#define ITEMS_WANTED (1u << 17)
#define ITEMS_CHOSEN 128u
#define PIXELS_FOR_VECTORS (1u << 15)
/* Minimum of CHANNELS that choose_config chooses, if possible.  With fewer, a work group takes
 * longer to start than to compute. */
#define CHANNELS_CHOSEN 8u
#define CHANNELS_OF_PART 8u
/* Maximum number of floats in shared memory: of the weights, and of the sums of all parts. */
#define WEIGHTS_MAX 4096u
#define SUMS_MAX 4096u

struct sides {
    uint32_t from, to; /* channels of a group that are read and computed */
    uint64_t pixels;   /* of an image */
};

static struct sides sides_of(const struct problem *p)
{
    uint32_t c = p->c / p->groups, k = p->k / p->groups;
    bool is_forward = p->direction == DIRECTION_FORWARD;
    return (struct sides){ is_forward ? c : k, is_forward ? k : c,
                           (uint64_t)p->in.d * p->in.h * p->in.w };
}

static unsigned kind_of(const struct problem *p)
{
    return sides_of(p).from <= FEW_MAX ? SPREAD : GATHER;
}

static uint64_t groups_of(const struct problem *p, const uint16_t *v)
{
    struct sides s = sides_of(p);
    uint64_t planes = (uint64_t)p->n * p->groups, pixels = (uint64_t)v[VECTOR] * v[ITEMS];
    if (kind_of(p) == SPREAD)
        return planes * ceil_div(s.to, v[CHANNELS]) * ceil_div(s.pixels, pixels);
    return planes * ceil_div(s.pixels, pixels / v[PARTS]);
}

static bool is_pointwise(const struct problem *p)
{
    struct extent f = p->filter, s = p->stride, pad = p->pad;
    return f.d == 1 && f.h == 1 && f.w == 1 && s.d == 1 && s.h == 1 && s.w == 1 && pad.d == 0 &&
           pad.h == 0 && pad.w == 0;
}

static bool gather_fits(const struct sides *s, const uint16_t *v)
{
    uint64_t weights = s->from * (ceil_div(s->to, 4) * 4);
    return weights <= WEIGHTS_MAX && (v[PARTS] == 1 || v[PARTS] * CHANNELS_OF_PART <= s->from) &&
           (v[PARTS] == 1 || (uint64_t)s->to * v[VECTOR] * v[ITEMS] <= SUMS_MAX);
}

static bool fits(const struct problem *p, const struct target *target, const uint16_t *v)
{
    struct sides s = sides_of(p);
    bool is_wide = kind_of(p) == SPREAD && v[CHANNELS] > 1 && v[CHANNELS] >= 2 * s.to;
    return s.pixels % v[VECTOR] == 0 && !is_wide && (kind_of(p) == SPREAD || gather_fits(&s, v)) &&
           geometry_is_launchable(target, groups_of(p, v), v[ITEMS]);
}

static const uint16_t smallest[AXES] = { 1, 1, ITEMS_CHOSEN };

static bool applies(const struct problem *p, const struct target *target)
{
    struct sides s = sides_of(p);
    return p->direction != DIRECTION_BACKWARD_WEIGHTS && p->type != TYPE_INT8 && is_pointwise(p) &&
           p->x_layout == LAYOUT_CHANNELS_FIRST && p->y_layout == LAYOUT_CHANNELS_FIRST &&
           (s.from <= FEW_MAX || s.to <= FEW_MAX) && geometry_fits_30_bits(p) &&
           fits(p, target, smallest);
}

static bool is_favoured(const struct problem *p, const struct target *target)
{
    struct sides s = sides_of(p);
    (void)target;
    return s.from < TOO_WIDE || s.to < TOO_WIDE;
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    (void)target;
    return (struct perf_space){ .axes = axes[kind_of(p)], .count = AXES };
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    return fits(p, target, config->values);
}

/* Returns how many neighbouring pixels an item loads at once.  On an H200, four are faster for
 * SPREAD only in fp32, and for GATHER only if there are many pixels. */
static uint16_t vector_for(const struct problem *p)
{
    uint64_t pixels = sides_of(p).pixels;
    bool helps = kind_of(p) == SPREAD ? p->type == TYPE_FLOAT32
                                      : (uint64_t)p->n * p->groups * pixels >= PIXELS_FOR_VECTORS;
    return helps && pixels % 4 == 0 ? 4 : 1;
}

static bool has_enough_items(const struct problem *p, const uint16_t *v)
{
    return groups_of(p, v) * v[ITEMS] >= ITEMS_WANTED;
}

/* For SPREAD, chooses the largest CHANNELS that leaves enough items to fill the GPU, because then
 * the fewest items read the same pixel.  For GATHER, chooses the smallest PARTS that makes enough
 * items. */
static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    unsigned kind = kind_of(p);
    const struct perf_axis *first = &axes[kind][CHANNELS];
    *ret_config = (struct perf_config){ AXES, { 1, vector_for(p), ITEMS_CHOSEN } };
    for (uint32_t i = 1; i < first->count; i++) {
        struct perf_config next = *ret_config;
        next.values[CHANNELS] = first->values[i];
        bool is_better = kind == GATHER ? !has_enough_items(p, ret_config->values)
                                        : next.values[CHANNELS] <= CHANNELS_CHOSEN ||
                                              has_enough_items(p, next.values);
        if (is_better && fits(p, target, next.values))
            *ret_config = next;
    }
}

static const char *const header_names[] = { "kiln/prelude.h" };

static void write_options(const struct problem *p, const uint16_t *v, struct option_text *text)
{
    struct sides s = sides_of(p);
    bool is_forward = p->direction == DIRECTION_FORWARD;
    option_define(text, "TYPE", p->type);
    option_define(text, "GROUPS", p->groups);
    option_define(text, "FROM", s.from);
    option_define(text, "TO", s.to);
    option_define(text, "W_FROM", is_forward ? 1 : s.to);
    option_define(text, "W_TO", is_forward ? s.from : 1);
    option_define(text, "PIXELS", (uint32_t)s.pixels);
    option_define(text, "CHANNELS", kind_of(p) == SPREAD ? v[CHANNELS] : 0);
    option_define(text, "PARTS", kind_of(p) == GATHER ? v[PARTS] : 0);
    option_define(text, "VECTOR", v[VECTOR]);
    option_define(text, "ITEMS", v[ITEMS]);
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)target;
    (void)err;
    const uint16_t *v = config->values;
    bool is_forward = p->direction == DIRECTION_FORWARD;
    *ret_solution = (struct solution){ .program_count = 1, .kernel_count = 1 };
    struct solution_program *program = &ret_solution->programs[0];
    struct option_text text = { program->options, sizeof(program->options), 0 };
    program->name = "conv_pointwise.cl";
    program->source = bytes_of(kernels_conv_pointwise, kernels_conv_pointwise_size);
    program->header_names = header_names;
    program->header_texts[0] = bytes_of(kernels_prelude, kernels_prelude_size);
    program->header_count = 1;
    write_options(p, v, &text);
    ret_solution->kernels[0] = (struct solution_kernel){
        .name = kind_of(p) == SPREAD ? "conv_pointwise_spread" : "conv_pointwise_gather",
        .grid = { (uint32_t)groups_of(p, v), 1, 1 },
        .group = { v[ITEMS], 1, 1 },
        .argument_count = 3,
        .arguments = { { ARGUMENT_W, 0 },
                       { is_forward ? ARGUMENT_X : ARGUMENT_Y, 0 },
                       { is_forward ? ARGUMENT_Y : ARGUMENT_X, 0 } },
    };
    return KILN_OK;
}

const struct solver solver_conv_pointwise = {
    .name = "ConvPointwise",
    .algorithm = "Direct",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
