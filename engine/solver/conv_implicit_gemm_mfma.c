/* SPDX-License-Identifier: MIT */
/* ConvImplicitGemm on AMD's matrix cores: MFMA instructions of CDNA, WMMA of RDNA 3 and 4.
 * conv_product.h explains how the product is divided; this file has the limits of the hardware and
 * a model of the time. */
#include "engine/solver/conv_implicit_gemm_paths.h"
#include "engine/solver/conv_product.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"

#include <string.h>

#define SHARED_MAX 65536u /* bytes of LDS for one work group */
#define THREADS_MAX 512u
/* Maximum numbers of registers of an item: for its sums, and for everything else (estimated).  CDNA
 * also has accumulation registers, so its limits are higher. */
#define SUMS_MAX 128u
#define SUMS_MAX_RDNA 64u
#define OTHERS_MAX 104u
#define OTHERS_MAX_RDNA 60u
#define SUMS_MIN 16u

static const struct machine {
    const char *arch;
    enum amd_cores cores;
    /* The GPU has only v_mfma_f32_16x16x8_bf16, which takes bf16 operands in pairs. */
    bool takes_pairs;
    uint16_t compute_units; /* compute units of the largest GPU with this arch */
    uint16_t multiply_adds; /* multiply-adds of one compute unit per cycle, from data sheets */
} machines[] = {
    { "gfx908", CORES_MFMA, true, 120, 512 },
    { "gfx90a", CORES_MFMA, false, 110, 512 },
    { "gfx940", CORES_MFMA, false, 228, 1024 },
    { "gfx941", CORES_MFMA, false, 304, 1024 },
    { "gfx942", CORES_MFMA, false, 304, 1024 },
    { "gfx950", CORES_MFMA, false, 256, 1024 },
    { "gfx1100", CORES_WMMA_RDNA3, false, 96, 256 },
    { "gfx1101", CORES_WMMA_RDNA3, false, 60, 256 },
    { "gfx1102", CORES_WMMA_RDNA3, false, 32, 256 },
    { "gfx1103", CORES_WMMA_RDNA3, false, 12, 256 },
    { "gfx1150", CORES_WMMA_RDNA3, false, 16, 256 },
    { "gfx1151", CORES_WMMA_RDNA3, false, 40, 256 },
    { "gfx1200", CORES_WMMA_RDNA4, false, 32, 512 },
    { "gfx1201", CORES_WMMA_RDNA4, false, 64, 512 },
};

enum axis { TILE_M, TILE_N, TILE_K, WAVES_M, WAVES_N, STAGES, SPLIT, BAND, AXES };

static const uint16_t tiles_m[] = { 64, 128, 256 };
static const uint16_t tiles_n[] = { 32, 64, 128, 256 };
static const uint16_t tiles_k[] = { 32, 64 };
static const uint16_t waves[] = { 1, 2, 4 };
static const uint16_t stages[] = { 1, 2 };
static const uint16_t splits[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 };
static const uint16_t bands[] = { 1, 4, 16 };

#define VALUES(array) array, sizeof(array) / sizeof((array)[0])

static const struct perf_axis axes[AXES] = {
    [TILE_M] = { "tile_m", VALUES(tiles_m) }, [TILE_N] = { "tile_n", VALUES(tiles_n) },
    [TILE_K] = { "tile_k", VALUES(tiles_k) }, [WAVES_M] = { "waves_m", VALUES(waves) },
    [WAVES_N] = { "waves_n", VALUES(waves) }, [STAGES] = { "stages", VALUES(stages) },
    [SPLIT] = { "split_k", VALUES(splits) },  [BAND] = { "band", VALUES(bands) },
};

static const struct machine *machine_of(const struct target *target)
{
    char arch[LIMIT_TARGET_TEXT];
    if (target->family != TARGET_AMDGPU)
        return NULL;
    target_arch(target, arch, sizeof(arch));
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        if (strcmp(arch, machines[i].arch) == 0)
            return &machines[i];
    return NULL;
}

enum amd_cores igemm_amd_cores(const struct target *target)
{
    const struct machine *machine = machine_of(target);
    return machine ? machine->cores : CORES_NONE;
}

bool igemm_amd_takes_pairs(const struct target *target, uint32_t type)
{
    return machine_of(target)->takes_pairs && type == TYPE_BFLOAT16;
}

static uint32_t wave_of(const struct machine *machine)
{
    return machine->cores == CORES_MFMA ? 64 : 32;
}

static bool smallest_is_launchable(const struct packing *packing, const struct target *target)
{
    struct product_tiling t = { .tile_m = 64, .tile_n = 32, .tile_k = 32, .band = 1, .slices = 1 };
    struct product product = product_of(packing, t.tile_k);
    uint32_t threads = 2 * wave_of(machine_of(target));
    return geometry_is_launchable(target, product_groups(packing, &product, &t), threads);
}

static bool applies(const struct problem *p, const struct target *target)
{
    struct packing packing;
    return machine_of(target) && product_covers(p, /* has_tf32= */ false, &packing) &&
           smallest_is_launchable(&packing, target);
}

static bool is_favoured(const struct problem *p, const struct target *target)
{
    (void)target;
    return product_is_favoured(p);
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    (void)p;
    (void)target;
    return (struct perf_space){ .axes = axes, .count = AXES };
}

struct cost {
    struct packing packing;
    struct product product;
    struct product_tiling tiling;
    uint32_t shared;
    uint32_t sums, others; /* estimated registers of one item */
};

static void cost_of(const struct problem *p, const struct machine *machine, const uint16_t *v,
                    struct cost *ret)
{
    struct product_tiling *t = &ret->tiling;
    uint32_t wave = wave_of(machine);
    packing_of(p, &ret->packing);
    ret->product = product_of(&ret->packing, v[TILE_K]);
    *t = (struct product_tiling){ .tile_m = v[TILE_M],
                                  .tile_n = v[TILE_N],
                                  .tile_k = v[TILE_K],
                                  .element = (uint32_t)data_type_size((enum data_type)p->type),
                                  .warps_m = v[WAVES_M],
                                  .warps_n = v[WAVES_N],
                                  .stages = v[STAGES],
                                  .band = v[BAND],
                                  .threads = wave * v[WAVES_M] * v[WAVES_N] };
    product_slice(&ret->product, v[SPLIT], t);
    ret->shared = product_tile_bytes(t, v[STAGES]);
    uint32_t wave_m = v[TILE_M] / v[WAVES_M], wave_n = v[TILE_N] / v[WAVES_N];
    uint32_t operand = machine->cores == CORES_WMMA_RDNA3 ? 8 : 4;
    uint32_t left = v[TILE_M] * v[TILE_K] / 8 / t->threads;
    uint32_t right = v[TILE_N] * v[TILE_K] / 8 / t->threads;
    ret->sums = wave_m * wave_n / wave;
    ret->others = operand * (wave_m + wave_n) / 16 + 4 * (left + right) + 2 * left;
}

/* Returns whether each item can copy the same chunk of a transposed operand's row in all steps.
 * This requires that the group has an item for each chunk of the row. */
static bool turns_fit(const struct problem *p, const struct cost *c)
{
    const struct product_tiling *t = &c->tiling;
    return (p->direction == DIRECTION_FORWARD || t->tile_n <= t->threads) &&
           (p->direction != DIRECTION_BACKWARD_WEIGHTS || t->tile_m <= t->threads);
}

static bool is_redundant(const uint16_t *v, const struct cost *c)
{
    return product_is_redundant(&c->packing, &c->product, &c->tiling, v[SPLIT]) ||
           (v[STAGES] > 1 && c->tiling.slice == 1);
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    const uint16_t *v = config->values;
    uint32_t wave_m = v[TILE_M] / v[WAVES_M], wave_n = v[TILE_N] / v[WAVES_N];
    if (wave_m % 16 || wave_n % 16 || wave_m > 128 || wave_n > 128)
        return false;
    const struct machine *machine = machine_of(target);
    struct cost c;
    cost_of(p, machine, v, &c);
    bool is_mfma = machine->cores == CORES_MFMA;
    uint64_t groups = product_groups(&c.packing, &c.product, &c.tiling);
    return c.tiling.threads >= 64 && c.tiling.threads <= THREADS_MAX && c.shared <= SHARED_MAX &&
           c.sums >= SUMS_MIN && c.sums <= (is_mfma ? SUMS_MAX : SUMS_MAX_RDNA) &&
           c.others <= (is_mfma ? OTHERS_MAX : OTHERS_MAX_RDNA) && turns_fit(p, &c) &&
           !is_redundant(v, &c) && geometry_is_launchable(target, groups, c.tiling.threads);
}

#define SHARED_BYTES_PER_CYCLE 128.0 /* LDS of one compute unit */
#define COPY_BYTES_PER_CYCLE 64.0    /* from the L1 cache to a compute unit */
/* Time of the start and the end of a work group, as a number of tiles along the reduction. */
#define FILL_TILES 8.0
/* Time to write and read one partial sum, as the number of multiply-adds that all compute units
 * together do in that time. */
#define REDUCE_MULTIPLY_ADDS 128.0

/*
 * Estimates the time in cycles, from data sheets, not from measurements.  It is a roofline model,
 * like group_cycles in conv_implicit_gemm_mma.c.  Matrix cores, LDS reads and copies into LDS work
 * in parallel, and the slowest of the three determines the time of a tile.  The total is the time
 * of a tile, times the number of tiles of one work group (plus its start and end), times the number
 * of rounds in which the work groups run.  Slices add the time of the final reduction.
 */
static double estimate(const struct problem *p, const struct machine *machine, const uint16_t *v)
{
    struct cost c;
    cost_of(p, machine, v, &c);
    double groups = (double)product_groups(&c.packing, &c.product, &c.tiling) *
                    c.product.residues_busy / c.product.residues;
    double products = (double)v[TILE_M] * v[TILE_N] * v[TILE_K];
    double shares = (double)v[WAVES_M] / v[TILE_M] + (double)v[WAVES_N] / v[TILE_N];
    double multiply = products / machine->multiply_adds;
    double read = products * shares * 2 / SHARED_BYTES_PER_CYCLE;
    double copy = ((double)v[TILE_M] + v[TILE_N]) * v[TILE_K] * 2 / COPY_BYTES_PER_CYCLE;
    double most = multiply > read ? multiply : read;
    if (copy > most)
        most = copy;
    double rounds =
        (double)(uint64_t)((groups + machine->compute_units - 1) / machine->compute_units);
    double cycles = rounds * (c.tiling.slice + FILL_TILES / v[STAGES]) * most;
    if (c.tiling.slices > 1)
        cycles += (double)c.product.rows * (double)c.product.columns * c.product.residues *
                  c.packing.problem.groups * c.tiling.slices * REDUCE_MULTIPLY_ADDS /
                  machine->multiply_adds / machine->compute_units;
    return cycles;
}

static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret)
{
    static const uint16_t shapes[][4] = {
        /* The columns are tile_m, tile_n, waves_m, waves_n. */
        { 128, 128, 2, 2 }, { 128, 128, 2, 4 }, { 256, 64, 4, 1 }, { 256, 64, 4, 2 },
        { 128, 64, 2, 2 },  { 64, 128, 2, 2 },  { 64, 64, 2, 2 },  { 64, 64, 2, 1 },
        { 128, 32, 4, 1 },  { 64, 32, 2, 1 },   { 64, 32, 2, 2 },
    };
    const struct machine *machine = machine_of(target);
    double best = 0;
    ret->count = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (size_t j = 0; j < axes[STAGES].count * axes[SPLIT].count; j++) {
            struct perf_config c = { AXES, { shapes[i][0], shapes[i][1], tiles_k[0] } };
            c.values[WAVES_M] = shapes[i][2];
            c.values[WAVES_N] = shapes[i][3];
            c.values[STAGES] = stages[j % axes[STAGES].count];
            c.values[SPLIT] = splits[j / axes[STAGES].count];
            c.values[BAND] = bands[0];
            if (!config_is_valid(p, target, &c))
                continue;
            double cycles = estimate(p, machine, c.values);
            if (ret->count == 0 || cycles < best) {
                *ret = c;
                best = cycles;
            }
        }
    }
}

static enum kiln_code solve(const struct problem *p, const struct target *target,
                            const struct perf_config *config, struct solution *ret_solution,
                            struct kiln_err *err)
{
    (void)err;
    const struct machine *machine = machine_of(target);
    struct cost cost;
    cost_of(p, machine, config->values, &cost);
    struct solution_program *program = product_solve(p, &cost.tiling, ret_solution);
    struct option_text text = { program->options, sizeof(program->options),
                                strlen(program->options) };
    option_define(&text, "CORES", machine->cores);
    option_define(&text, "PAIRS", igemm_amd_takes_pairs(target, p->type));
    option_define(&text, "TILES_BYTES", cost.shared);
    return KILN_OK;
}

const struct igemm_path igemm_path_mfma = {
    .name = "mfma",
    .applies = applies,
    .is_favoured = is_favoured,
    .space = space,
    .config_is_valid = config_is_valid,
    .choose_config = choose_config,
    .solve = solve,
};
