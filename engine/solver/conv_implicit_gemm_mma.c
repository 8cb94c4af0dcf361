/* SPDX-License-Identifier: MIT */
/* On NVIDIA's matrix cores: mma.sync and ldmatrix, or on sm_90a wgmma; cp.async. */
#include "engine/solver/conv_implicit_gemm_paths.h"
#include "engine/solver/conv_product.h"
#include "engine/solver/options.h"

#include <stdlib.h>
#include <string.h>

/* Of a multiprocessor, sm_80 and sm_90; others of 8.x have less shared memory and fewer warps. */
#define REGISTERS 65536u
#define THREADS_MOST 2048u
#define SHARED_RESERVED 1024u /* of each work group, by the system */
#define THREAD_REGISTERS_MOST 255u
#define FILTER_SUM_MOST 31u /* bits of a row's mask of taps in the kernel */
#define OCCUPANCY_MOST 4u
#define WARP_SUMS_LEAST 1024u
#define WIDE_SUMS_MOST (128u * 128u) /* of four warps: 128 registers of each item */
#define SPLIT_GROUPS_MOST 2048u      /* what more than fills any GPU is not split further */

enum axis { TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N, STAGES, SPLIT, BAND, CACHE, WIDE, AXES };

static const uint16_t tiles_m[] = { 64, 128, 256 };
static const uint16_t tiles_n[] = { 32, 64, 128, 256 };
static const uint16_t tiles_k[] = { 32, 64 };
static const uint16_t warps[] = { 1, 2, 4, 8 };
static const uint16_t stages[] = { 2, 3, 4, 5, 6 };
static const uint16_t splits[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 };
static const uint16_t bands[] = { 1, 16 };
static const uint16_t caches[] = { 0, 1 };
static const uint16_t wides[] = { 0, 1 };

#define VALUES(array) array, sizeof(array) / sizeof((array)[0])

static const struct perf_axis axes[AXES] = {
    [TILE_M] = { "tile_m", VALUES(tiles_m) }, [TILE_N] = { "tile_n", VALUES(tiles_n) },
    [TILE_K] = { "tile_k", VALUES(tiles_k) }, [WARPS_M] = { "warps_m", VALUES(warps) },
    [WARPS_N] = { "warps_n", VALUES(warps) }, [STAGES] = { "stages", VALUES(stages) },
    [SPLIT] = { "split_k", VALUES(splits) },  [BAND] = { "band", VALUES(bands) },
    [CACHE] = { "l1", VALUES(caches) },       [WIDE] = { "wgmma", VALUES(wides) },
};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* sm_NN: NN, else 0. */
static unsigned long capability(const struct target *target)
{
    return target->family == TARGET_NVIDIA ? strtoul(target->text + strlen("sm_"), NULL, 10) : 0;
}

static uint32_t shared_most(const struct target *target) /* of a multiprocessor, in bytes */
{
    switch (capability(target)) {
    case 80:
    case 87: return 164 * 1024;
    case 86:
    case 89:
    case 120:
    case 121: return 100 * 1024;
    default: return 228 * 1024;
    }
}

static bool applies(const struct problem *p, const struct target *target)
{
    struct packing packing;
    return capability(target) >= 80 && (p->type == TYPE_FLOAT16 || p->type == TYPE_BFLOAT16) &&
           packing_of(p, &packing) &&
           packing.problem.filter.d + packing.problem.filter.h + packing.problem.filter.w <=
               FILTER_SUM_MOST;
}

/* Groups of a channel or two leave the matrix cores mostly empty. */
static bool is_favoured(const struct problem *p, const struct target *target)
{
    (void)target;
    return p->groups == 1 || (p->c / p->groups >= 4 && p->k / p->groups >= 4);
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    (void)p;
    (void)target;
    return (struct perf_space){ axes, AXES };
}

/* ---- what a config takes ---- */

struct cost {
    struct packing packing;
    struct product product;
    struct product_tiling tiling;
    uint32_t registers; /* of a thread, estimated */
    uint32_t occupancy; /* work groups on a multiprocessor */
};

static void cost_of(const struct problem *p, const struct target *target, const uint16_t *v,
                    struct cost *ret)
{
    struct product_tiling *t = &ret->tiling;
    packing_of(p, &ret->packing);
    ret->product = product_of(&ret->packing, v[TILE_K]);
    *t = (struct product_tiling){ .tile_m = v[TILE_M],
                                  .tile_n = v[TILE_N],
                                  .tile_k = v[TILE_K],
                                  .warps_m = v[WARPS_M],
                                  .warps_n = v[WARPS_N],
                                  .stages = v[STAGES],
                                  .band = v[BAND],
                                  .is_wide = v[WIDE],
                                  .threads = 32u * v[WARPS_M] * v[WARPS_N] };
    product_slice(&ret->product, v[SPLIT], t);
    t->shared = product_tile_bytes(t, v[WIDE] ? v[STAGES] : least(v[STAGES], t->slice));
    uint32_t warp_m = v[TILE_M] / v[WARPS_M], warp_n = v[TILE_N] / v[WARPS_N];
    uint32_t sums = warp_m * warp_n / 32, operands = v[WIDE] ? 8 : 2 * (warp_m / 4 + warp_n / 4);
    uint32_t rows = v[TILE_M] * v[TILE_K] / 8 / t->threads; /* of the image, that an item copies */
    ret->registers =
        sums + operands + 16 + 2 * (rows > 4 ? rows - 4 : 0) + (ret->product.residues > 1 ? 16 : 0);
    uint32_t fit = least(REGISTERS / (ret->registers * t->threads), THREADS_MOST / t->threads);
    ret->occupancy =
        least(least(shared_most(target) / (t->shared + SHARED_RESERVED), fit), OCCUPANCY_MOST);
}

/* Neither were points like these near the best of 1442 trials, nor do they differ from others. */
static bool is_pointless(const struct problem *p, const uint16_t *v, const struct cost *c)
{
    uint32_t warp_sums = v[TILE_M] / v[WARPS_M] * (v[TILE_N] / v[WARPS_N]);
    if (v[WIDE] && (v[CACHE] || c->product.columns <= 32))
        return true;
    if (warp_sums < WARP_SUMS_LEAST / (1 + v[WIDE]) ||
        (c->tiling.threads > 256 && warp_sums < 2 * WARP_SUMS_LEAST))
        return true;
    /* Only backward weights has neighbours that read one pixel for many taps. */
    if (v[CACHE] && p->direction != DIRECTION_BACKWARD_WEIGHTS)
        return true;
    /* A tile of which no half is needed. */
    if ((v[TILE_M] > tiles_m[0] && c->product.rows * 2 <= v[TILE_M]) ||
        (v[TILE_N] > tiles_n[0] && c->product.columns * 2 <= v[TILE_N]))
        return true;
    if (c->tiling.slices > 1 &&
        product_groups(&c->packing, &c->product, &c->tiling) / v[BAND] > SPLIT_GROUPS_MOST)
        return true;
    /* A split that another value makes as well, and stages that are never filled. */
    return c->tiling.slices != v[SPLIT] ||
           (v[STAGES] > 2u + v[WIDE] && v[STAGES] > c->tiling.slice + 1 + v[WIDE]);
}

/* Four warps along M share rows in steps of 64; a turned operand lies in panels of 64 columns.  One
 * tile more than is copied ahead is still multiplied. */
static bool is_wide_shape(const struct problem *p, const struct target *target, const uint16_t *v)
{
    if (strcmp(target->text, "sm_90a") != 0 || v[WARPS_M] < 4 || v[STAGES] < 3 || v[WARPS_N] > 2)
        return false;
    uint32_t team_m = v[TILE_M] / (v[WARPS_M] / 4), team_n = v[TILE_N] / v[WARPS_N];
    return team_m % 64 == 0 && team_n >= (p->direction == DIRECTION_FORWARD ? 32 : 64) &&
           team_m * team_n <= WIDE_SUMS_MOST;
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    const uint16_t *v = config->values;
    uint32_t warp_m = v[TILE_M] / v[WARPS_M], warp_n = v[TILE_N] / v[WARPS_N];
    if (v[WIDE] ? !is_wide_shape(p, target, v)
                : v[WARPS_M] > 4 || warp_m % 16 || warp_n % 16 ||
                      warp_m > 64 + 64 * (warp_n <= 32) || warp_n > 128)
        return false;
    struct cost c;
    cost_of(p, target, v, &c);
    return !is_pointless(p, v, &c) && c.tiling.threads >= 64 && c.occupancy >= 1 &&
           c.registers <= least(THREAD_REGISTERS_MOST, REGISTERS / c.tiling.threads);
}

/* ---- the choice without measurements ---- */

/* Fitted to those trials: an H200, ResNet-50's 69 problems in fp16. */
#define PROCESSORS 132.0 /* multiprocessors of a large GPU */
#define CYCLES_PER_US 1700.0
#define FMA_PER_CYCLE 1200.0      /* of a multiprocessor's matrix cores */
#define WIDE_FMA_PER_CYCLE 2100.0 /* the same, by wgmma */
#define WIDE_STEP_CYCLES 50.0     /* of each tile along the reduction */
#define WIDE_STAGES 4
#define SHARED_BYTES_PER_CYCLE 116.0 /* from shared memory to its registers */
#define COPY_BYTES_PER_CYCLE 115.0   /* from the L2 cache */
#define WEIGHTS_CHUNK_CYCLES 0.084   /* backward weights finds a pixel for each copy of 16 bytes */
#define FILL_CYCLES 3100.0 /* from a work group's start to its first product, and its end */
#define BASE_US 11.0       /* of any launch */
#define REDUCE_BYTES_PER_US 6.0e6
#define REDUCE_US 5.0

/* Of a work group that has the multiprocessor for itself. */
static double group_cycles(const struct problem *p, const uint16_t *v, uint32_t tiles)
{
    double products = (double)v[TILE_M] * v[TILE_N] * v[TILE_K];
    double elements = ((double)v[TILE_M] + v[TILE_N]) * v[TILE_K];
    double shares = (double)v[WARPS_M] / v[TILE_M] + (double)v[WARPS_N] / v[TILE_N];
    double multiply = products / (v[WIDE] ? WIDE_FMA_PER_CYCLE : FMA_PER_CYCLE);
    double read = v[WIDE] ? 0 : products * shares * 2 / SHARED_BYTES_PER_CYCLE;
    double copy = elements * 2 / COPY_BYTES_PER_CYCLE;
    double most = multiply > read ? multiply : read;
    if (copy > most)
        most = copy;
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS)
        most += elements / 8 * WEIGHTS_CHUNK_CYCLES;
    return (most + (v[WIDE] ? WIDE_STEP_CYCLES : 0)) * tiles;
}

/* Microseconds, roughly: whole rounds of work groups over the multiprocessors. */
static double estimate(const struct problem *p, const struct target *target, const uint16_t *v)
{
    struct cost c;
    cost_of(p, target, v, &c);
    double groups = (double)product_groups(&c.packing, &c.product, &c.tiling) *
                    c.product.residues_busy / c.product.residues;
    double together = least(c.occupancy, (uint32_t)(groups / PROCESSORS) + 1);
    double cycles =
        group_cycles(p, v, c.tiling.slice) * together * (1 + 0.1 / (together * (v[STAGES] - 1)));
    double rounds =
        (double)(uint64_t)((groups + PROCESSORS * together - 1) / (PROCESSORS * together));
    double us = BASE_US + rounds * (cycles + FILL_CYCLES) / CYCLES_PER_US;
    if (c.tiling.slices > 1)
        us += REDUCE_US + (double)c.product.rows * (double)c.product.columns * c.product.residues *
                              c.packing.problem.groups * 8 * c.tiling.slices / REDUCE_BYTES_PER_US;
    return us;
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret)
{
    static const uint16_t shapes[][5] = {
        /* tile m, n; warps m, n; wide */
        { 128, 256, 8, 1, 1 }, { 256, 128, 8, 1, 1 }, { 128, 128, 8, 1, 1 }, { 128, 64, 8, 1, 1 },
        { 64, 128, 4, 1, 1 },  { 64, 64, 4, 1, 1 },   { 64, 256, 4, 1, 1 },  { 256, 128, 4, 2 },
        { 128, 256, 2, 4 },    { 128, 128, 2, 2 },    { 128, 128, 2, 4 },    { 256, 64, 4, 1 },
        { 128, 64, 2, 2 },     { 64, 128, 2, 2 },     { 64, 64, 2, 2 },      { 64, 256, 1, 4 },
        { 256, 32, 4, 1 },     { 128, 32, 4, 1 },     { 64, 32, 2, 1 }
    };
    double best = 0;
    ret->count = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t j = 0; j < axes[TILE_K].count * axes[STAGES].count * axes[SPLIT].count; j++) {
            struct perf_config c = { AXES, { shapes[i][0], shapes[i][1] } };
            c.values[TILE_K] = tiles_k[j % axes[TILE_K].count];
            c.values[WARPS_M] = shapes[i][2];
            c.values[WARPS_N] = shapes[i][3];
            c.values[STAGES] = stages[j / axes[TILE_K].count % axes[STAGES].count];
            c.values[SPLIT] = splits[j / axes[TILE_K].count / axes[STAGES].count];
            c.values[BAND] = bands[0];
            c.values[WIDE] = shapes[i][4];
            if (shapes[i][4] && (c.values[TILE_K] != 64 || c.values[STAGES] != WIDE_STAGES))
                continue;
            if (!config_is_valid(p, target, &c))
                continue;
            double us = estimate(p, target, c.values);
            if (ret->count == 0 || us < best) {
                *ret = c;
                best = us;
            }
        }
    }
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)err;
    struct cost cost;
    cost_of(p, target, config->values, &cost);
    struct solution_program *program = product_solve(p, &cost.tiling, ret_solution);
    struct option_text text = { program->options, sizeof(program->options),
                                strlen(program->options) };
    option_define(&text, "CACHE", config->values[CACHE]);
    option_define(&text, "BLOCKS", cost.occupancy);
    return KILN_OK;
}

const struct igemm_path igemm_path_mma = {
    .name = "mma",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
