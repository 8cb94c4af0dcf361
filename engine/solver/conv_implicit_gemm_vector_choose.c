/* SPDX-License-Identifier: MIT */
#include "engine/solver/conv_implicit_gemm_vector.h"
#include "engine/solver/geometry.h"

#include <math.h>

struct tiling {
    uint16_t values[STAGES + 1];
    uint16_t resident; /* work groups that a compute unit runs at a time */
    /* TFLOP/s for forward and backward data, with |resident| work groups on each compute unit. */
    float pixels;
    float weights; /* TFLOP/s for backward weights; 0: backward weights do not use the tiling */
};

/* Tilings with asynchronous copies.  The speeds were measured on an H200 with the problems of
 * ResNet-50, in fp32. */
static const struct tiling async_tilings[] = {
    { { 128, 128, 16, 8, 8, 2 }, 2, 45.0F, 39.6F }, { { 64, 128, 16, 8, 8, 3 }, 4, 46.0F, 0 },
    { { 64, 64, 16, 8, 4, 3 }, 7, 42.5F, 36.2F },   { { 64, 64, 16, 8, 8, 3 }, 8, 42.5F, 0 },
    { { 64, 64, 16, 8, 8, 2 }, 8, 0, 39.2F },       { { 64, 64, 8, 8, 8, 3 }, 7, 0, 39.2F },
    { { 128, 64, 8, 8, 8, 3 }, 4, 43.3F, 0 },       { { 128, 64, 16, 8, 8, 3 }, 3, 0, 38.7F },
    { { 64, 128, 8, 8, 8, 3 }, 4, 44.0F, 0 },       { { 32, 128, 16, 4, 8, 3 }, 6, 40.7F, 0 },
    { { 32, 256, 8, 8, 8, 3 }, 4, 42.0F, 0 },       { { 128, 256, 8, 8, 16, 3 }, 1, 41.0F, 37.8F },
    { { 256, 128, 8, 16, 8, 3 }, 1, 41.0F, 37.8F }, { { 64, 32, 8, 4, 4, 2 }, 8, 23.7F, 23.7F },
    { { 32, 64, 8, 4, 4, 2 }, 8, 23.7F, 23.7F },    { { 16, 128, 8, 4, 4, 2 }, 12, 30.7F, 23.7F },
    { { 32, 32, 8, 4, 4, 2 }, 16, 23.7F, 23.7F },   { { 16, 64, 8, 4, 4, 2 }, 16, 23.7F, 23.7F },
    { { 16, 64, 4, 4, 4, 2 }, 16, 20.0F, 20.0F },   { { 64, 16, 4, 4, 4, 2 }, 16, 20.0F, 20.0F },
    { { 32, 32, 4, 4, 4, 2 }, 16, 20.0F, 20.0F },
};

/* Tilings for matrix cores.  The speeds are estimates: they rank the tilings by how often an item
 * reads shared memory. */
static const struct tiling tf32_tilings[] = {
    { { 128, 128, 16, 8, 16, 3 }, 2, 150.0F, 150.0F },
    { { 128, 128, 16, 8, 8, 3 }, 2, 140.0F, 140.0F },
    { { 64, 128, 16, 8, 8, 3 }, 4, 125.0F, 125.0F },
    { { 128, 64, 16, 8, 8, 3 }, 4, 125.0F, 125.0F },
    { { 64, 64, 16, 8, 8, 3 }, 6, 110.0F, 110.0F },
    { { 32, 128, 16, 4, 8, 3 }, 6, 80.0F, 80.0F },
    { { 128, 32, 16, 8, 8, 3 }, 6, 80.0F, 80.0F },
    { { 32, 64, 16, 4, 8, 3 }, 8, 70.0F, 70.0F },
    { { 64, 32, 8, 8, 8, 2 }, 8, 50.0F, 50.0F },
    { { 32, 64, 8, 4, 8, 2 }, 8, 50.0F, 50.0F },
};

/* Tilings for other targets.  Their speeds are estimates, too. */
static const struct tiling other_tilings[] = {
    { { 128, 128, 8, 8, 8, 2 }, 2, 40.0F, 40.0F }, { { 64, 128, 8, 8, 8, 2 }, 4, 40.0F, 40.0F },
    { { 128, 64, 8, 8, 8, 2 }, 4, 40.0F, 40.0F },  { { 64, 64, 8, 8, 4, 2 }, 4, 34.3F, 34.3F },
    { { 32, 128, 8, 4, 8, 2 }, 4, 34.3F, 34.3F },  { { 128, 32, 8, 8, 4, 2 }, 4, 34.3F, 34.3F },
    { { 32, 64, 8, 4, 4, 2 }, 4, 30.0F, 30.0F },   { { 64, 32, 8, 4, 4, 2 }, 4, 30.0F, 30.0F },
    { { 32, 32, 8, 4, 4, 2 }, 8, 30.0F, 30.0F },   { { 16, 128, 8, 4, 4, 2 }, 4, 30.0F, 30.0F },
    { { 16, 64, 8, 4, 4, 2 }, 8, 30.0F, 30.0F },   { { 16, 64, 4, 4, 4, 2 }, 8, 30.0F, 30.0F },
    { { 32, 32, 4, 4, 4, 2 }, 8, 30.0F, 30.0F },   { { 64, 16, 8, 4, 4, 2 }, 8, 30.0F, 30.0F },
    { { 64, 16, 4, 4, 4, 2 }, 8, 30.0F, 30.0F },
};
/* Tilings on NVIDIA's GPUs for backward weights in 16 bits with few rows and one pixel of y in each
 * image.  Each step waits for its copies, so there should be few steps: on an H200, sums of 128
 * products took 5.6 us with 32 products in a step, and 9.0 us with 8. */
static const struct tiling few_rows_tilings[] = {
    { { 32, 64, 32, 4, 4, 2 }, 4, 30.0F, 30.0F },
    { { 16, 64, 16, 4, 4, 2 }, 8, 20.0F, 20.0F },
};
#define FEW_ROWS 8u

/* The tilings from this index on are for CPUs.  They have about 64 items with 4 x 4 results
 * each. */
#define FIRST_SMALL 8

#define UNITS 132.0         /* compute units of an H200 */
#define ITEMS_TO_FILL 288.0 /* items that keep a unit busy */
/* The time to fill the stages and to store the results, in steps. */
#define STEPS_OF_BEGIN_AND_END 20
/* The rate at which partial sums are written and read. */
#define BYTES_A_US 3.5e6
#define US_A_LAUNCH 3.0
/* Factor for the speed if the weights are not rearranged, and are thus copied 4 bytes at a time. */
#define SLOWER_BY_WEIGHTS 0.97

/*
 * Estimates the time in microseconds.
 *
 * The tiles are distributed over |slots| (compute units times resident work groups) in rounds.  A
 * full round takes the time of one tile times the number of resident work groups, because they
 * share the unit. The last round is partial, with |rest| groups on each unit.  If these groups have
 * too few items to hide latency, the unit runs at the fraction |busy| of its speed.  Splits add the
 * time of writing and reading the parts.  Splits and preparation each add a launch.
 */
static double estimate(const struct problem *p, const struct vector_product *product,
                       const struct tiling *tiling, const uint16_t *v)
{
    double tiles = (double)(ceil_div(product->m, v[TILE_M]) * p->groups) *
                   (double)vector_column_tiles(product, v[TILE_N]) * v[SPLITS];
    double steps = (double)product->steps_of_one / product->classes / v[SPLITS];
    double rate = p->direction == DIRECTION_BACKWARD_WEIGHTS ? tiling->weights : tiling->pixels;
    rate *= 1e6 / UNITS;
    if (p->direction == DIRECTION_FORWARD && !v[PREPARE])
        rate *= SLOWER_BY_WEIGHTS;
    double one = 2.0 * v[TILE_M] * v[TILE_N] * (steps + STEPS_OF_BEGIN_AND_END) / rate;
    double slots = UNITS * tiling->resident, full = floor(tiles / slots);
    double rest = ceil((tiles - full * slots) / UNITS);
    double busy = sqrt(rest * vector_items(v) / ITEMS_TO_FILL);
    double us = one * (full * tiling->resident + (busy < 1 && rest > 0 ? rest / busy : rest));
    if (v[SPLITS] > 1)
        us += (double)geometry_output_elements(p) * 2 * sizeof(float) * v[SPLITS] / BYTES_A_US +
              US_A_LAUNCH;
    return us + (v[PREPARE] ? US_A_LAUNCH : 0);
}

struct choice {
    double us;
    struct perf_config config;
};

static void consider(const struct problem *p, const struct target *target,
                     const struct vector_product *product, const struct tiling *tiling,
                     struct choice *best)
{
    struct perf_space all = vector_space(p, target);
    struct perf_config config = { .count = AXES };
    for (uint32_t axis = 0; axis <= STAGES; axis++)
        config.values[axis] = tiling->values[axis];
    config.values[ROWS_FIRST] = 1;
    bool prepares = all.axes[PREPARE].count > 1 && product->taps > 1 &&
                    vector_prepared_weights_fit(p, target, tiling->values[TILE_K]);
    for (uint32_t s = 0; s < all.axes[SPLITS].count; s++) {
        if (all.axes[SPLITS].values[s] & (all.axes[SPLITS].values[s] - 1))
            continue; /* the model was fitted only to powers of two */
        for (uint32_t prepare = prepares; prepare < all.axes[PREPARE].count; prepare++) {
            config.values[SPLITS] = all.axes[SPLITS].values[s];
            config.values[PREPARE] = (uint16_t)prepare;
            double us = estimate(p, product, tiling, config.values);
            if (us < best->us && vector_config_is_valid(p, target, &config))
                *best = (struct choice){ us, config };
        }
    }
}

/* In backward data with strides, some classes have short sums and others long ones.  With enough
 * rounds, ROWS_FIRST is set to 0, so that short and long sums run at the same time.  Otherwise,
 * only long sums might be left at the end, too few to fill the device. */
#define ROUNDS_TO_MIX 4
#define ITEMS_AT_A_TIME 512

static void order_tiles(const struct problem *p, const struct vector_product *product, uint16_t *v)
{
    uint64_t tiles = vector_tiles(product, p->groups, v);
    uint64_t slots = (uint64_t)UNITS * (ITEMS_AT_A_TIME / vector_items(v));
    if (product->classes > 1 && tiles > slots * ROUNDS_TO_MIX)
        v[ROWS_FIRST] = 0;
}

struct tilings {
    const struct tiling *first;
    size_t count;
};
#define TILINGS(array, from) \
    (struct tilings) { (array) + (from), sizeof(array) / sizeof((array)[0]) - (size_t)(from) }

static struct tilings tilings_for(const struct problem *p, const struct target *target)
{
    if (igemm_uses_tf32(p, target))
        return TILINGS(tf32_tilings, 0);
    if (igemm_vector_copies_are_async((enum data_type)p->type, target))
        return TILINGS(async_tilings, 0);
    return TILINGS(other_tilings, target->family == TARGET_OPENCL ? FIRST_SMALL : 0);
}

static bool waits_for_steps(const struct problem *p, const struct target *target)
{
    struct extent out = problem_output(p);
    return target->family == TARGET_NVIDIA && p->direction == DIRECTION_BACKWARD_WEIGHTS &&
           p->type != TYPE_FLOAT32 && p->k / p->groups < FEW_ROWS &&
           (uint64_t)out.d * out.h * out.w == 1;
}

static void consider_all(const struct problem *p, const struct target *target,
                         struct tilings tilings, struct choice *best)
{
    struct vector_product product = vector_product_of(p);
    for (size_t i = 0; i < tilings.count; i++)
        consider(p, target, &product, &tilings.first[i], best);
}

void vector_choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret_config)
{
    struct vector_product product = vector_product_of(p);
    struct choice best = { .us = INFINITY };
    if (waits_for_steps(p, target))
        consider_all(p, target, TILINGS(few_rows_tilings, 0), &best);
    if (best.us == INFINITY)
        consider_all(p, target, tilings_for(p, target), &best);
    order_tiles(p, &product, best.config.values);
    *ret_config = best.config;
}
