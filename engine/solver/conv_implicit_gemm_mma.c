/* SPDX-License-Identifier: MIT */
/*
 * ConvImplicitGemm on NVIDIA's matrix cores.  The axis "wgmma" selects the instructions and copies:
 *
 *   0  NARROW           mma.sync: each warp multiplies alone, with operands in registers (ldmatrix)
 *   1  WIDE_ASYNC       wgmma (sm_90a): four warps, a "team", multiply together, with operands in
 *                       shared memory; all warps copy (cp.async)
 *   2  WIDE_BULK        wgmma, and one more warp copies tiles with bulk tensor copies
 *   3  WIDE_PERSISTENT  like WIDE_BULK, but each work group computes several tiles, and the copies
 *                       of the next tile overlap with the end of the current one
 *
 * conv_product.h explains how the product is divided; this file has the limits of the hardware and
 * models of the time.
 */
#include "engine/solver/conv_bulk.h"
#include "engine/solver/conv_implicit_gemm_paths.h"
#include "engine/solver/conv_product.h"
#include "engine/solver/geometry.h"
#include "engine/solver/options.h"

#include <string.h>

/* The limits of sm_80 and sm_90; other GPUs with compute capability 8.x have less shared memory and
 * fewer warps. */
#define REGISTERS 65536u
#define THREADS_MAX 2048u
#define SHARED_RESERVED 1024u /* bytes that CUDA reserves in each work group */
#define THREAD_REGISTERS_MAX 255u
#define OCCUPANCY_MAX 4u
#define WARP_SUMS_MIN 1024u
/* Maximum number of sums of a team: 128 registers for each of its 128 items. */
#define WIDE_SUMS_MAX (128u * 128u)
#define PROCESSORS 132u      /* multiprocessors of a large GPU */
#define WIDE_COLUMNS_MIN 32u /* wgmma is not used for products with at most this many columns */

enum axis { TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N, STAGES, SPLIT, BAND, CACHE, WIDE, AXES };

static const uint16_t tiles_m[] = { 64, 128, 256 }, wide_tiles_m[] = { 64, 128, 192, 256 };
static const uint16_t tiles_n[] = { 32, 64, 128, 256 }, wide_tiles_n[] = { 32, 64, 128, 192, 256 };
static const uint16_t tiles_k[] = { 32, 64 };
static const uint16_t tf32_tiles_k[] = { 16, 32 };
static const uint16_t warps[] = { 1, 2, 4, 8 };
static const uint16_t wide_warps_m[] = { 1, 2, 4, 8, 12 }, wide_warps_n[] = { 1, 2, 4 };
static const uint16_t stages[] = { 2, 3, 4, 5, 6 };
static const uint16_t splits[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 };
static const uint16_t bands[] = { 1, 16 };
static const uint16_t caches[] = { 0, 1 };
enum { NARROW, WIDE_ASYNC, WIDE_BULK, WIDE_PERSISTENT };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define VALUES(array) array, COUNT(array)
#define FIRST(array, count) array, count
#define FROM(array, first) (array) + (first), COUNT(array) - (first)

static const struct perf_axis axes[AXES] = {
    [TILE_M] = { "tile_m", VALUES(tiles_m) }, [TILE_N] = { "tile_n", VALUES(tiles_n) },
    [TILE_K] = { "tile_k", VALUES(tiles_k) }, [WARPS_M] = { "warps_m", VALUES(warps) },
    [WARPS_N] = { "warps_n", VALUES(warps) }, [STAGES] = { "stages", VALUES(stages) },
    [SPLIT] = { "split_k", VALUES(splits) },  [BAND] = { "band", VALUES(bands) },
    [CACHE] = { "l1", VALUES(caches) },       [WIDE] = { "wgmma", PERF_VALUES(NARROW) },
};

static const struct perf_axis tf32_axes[AXES] = {
    [TILE_M] = { "tile_m", VALUES(tiles_m) },
    [TILE_N] = { "tile_n", VALUES(tiles_n) },
    [TILE_K] = { "tile_k", VALUES(tf32_tiles_k) },
    [WARPS_M] = { "warps_m", VALUES(warps) },
    [WARPS_N] = { "warps_n", VALUES(warps) },
    [STAGES] = { "stages", VALUES(stages) },
    [SPLIT] = { "split_k", VALUES(splits) },
    [BAND] = { "band", VALUES(bands) },
    [CACHE] = { "l1", VALUES(caches) },
    [WIDE] = { "wgmma", PERF_VALUES(NARROW) },
};

static const struct perf_axis wide_axes[AXES] = {
    [TILE_M] = { "tile_m", VALUES(wide_tiles_m) },
    [TILE_N] = { "tile_n", VALUES(wide_tiles_n) },
    [TILE_K] = { "tile_k", VALUES(tiles_k) },
    [WARPS_M] = { "warps_m", VALUES(wide_warps_m) },
    [WARPS_N] = { "warps_n", VALUES(wide_warps_n) },
    [STAGES] = { "stages", VALUES(stages) },
    [SPLIT] = { "split_k", VALUES(splits) },
    [BAND] = { "band", VALUES(bands) },
    [CACHE] = { "l1", VALUES(caches) },
    [WIDE] = { "wgmma", PERF_VALUES(NARROW, WIDE_ASYNC, WIDE_BULK, WIDE_PERSISTENT) },
};

static const struct perf_axis wide_tf32_axes[AXES] = {
    [TILE_M] = { "tile_m", VALUES(wide_tiles_m) },
    [TILE_N] = { "tile_n", VALUES(wide_tiles_n) },
    [TILE_K] = { "tile_k", VALUES(tf32_tiles_k) },
    [WARPS_M] = { "warps_m", VALUES(wide_warps_m) },
    [WARPS_N] = { "warps_n", VALUES(wide_warps_n) },
    [STAGES] = { "stages", VALUES(stages) },
    [SPLIT] = { "split_k", VALUES(splits) },
    [BAND] = { "band", VALUES(bands) },
    [CACHE] = { "l1", VALUES(caches) },
    [WIDE] = { "wgmma", PERF_VALUES(NARROW, WIDE_BULK, WIDE_PERSISTENT) },
};

/* For each value of "wgmma", the tuning space has a part without split-K and, except for
 * WIDE_PERSISTENT, a part with split-K.  The last arguments of the macros are the values of
 * "split_k".  Each part has only the values of the other axes that can be valid with it, because
 * most points of the full product are invalid. */
#define PART(m, n, k, w_m, w_n, s, l1, wide, ...)                                                  \
    {                                                                                              \
        { "tile_m", m }, { "tile_n", n }, { "tile_k", k }, { "warps_m", w_m }, { "warps_n", w_n }, \
            { "stages", s }, { "split_k", __VA_ARGS__ }, { "band", VALUES(bands) }, { "l1", l1 },  \
            { "wgmma", PERF_VALUES(wide) },                                                        \
    }
#define NARROW_PART(k, ...)                                                                  \
    PART(VALUES(tiles_m), VALUES(tiles_n), VALUES(k), FIRST(warps, 3), VALUES(wide_warps_n), \
         VALUES(stages), VALUES(caches), NARROW, __VA_ARGS__)
#define ASYNC_PART(...)                                                     \
    PART(VALUES(tiles_m), VALUES(tiles_n), VALUES(tiles_k), FROM(warps, 2), \
         FIRST(wide_warps_n, 2), FROM(stages, 1), FIRST(caches, 1), WIDE_ASYNC, __VA_ARGS__)
#define BULK_PART(k, ...)                                                               \
    PART(VALUES(wide_tiles_m), VALUES(wide_tiles_n), FROM(k, 1), FROM(wide_warps_m, 2), \
         FIRST(wide_warps_n, 2), FROM(stages, 1), FIRST(caches, 1), WIDE_BULK, __VA_ARGS__)
#define PERSISTENT_PART(n, k, ...)                                                       \
    PART(VALUES(wide_tiles_m), FROM(wide_tiles_n, n), FROM(k, 1), FROM(wide_warps_m, 2), \
         FIRST(wide_warps_n, 2), VALUES(stages), FIRST(caches, 1), WIDE_PERSISTENT, __VA_ARGS__)
static const struct perf_axis wide_parts[][AXES] = {
    NARROW_PART(tiles_k, FIRST(splits, 1)),
    NARROW_PART(tiles_k, FROM(splits, 1)),
    ASYNC_PART(FIRST(splits, 1)),
    ASYNC_PART(FROM(splits, 1)),
    BULK_PART(tiles_k, FIRST(splits, 1)),
    BULK_PART(tiles_k, FROM(splits, 1)),
    PERSISTENT_PART(1, tiles_k, FIRST(splits, 1)),
};
static const struct perf_axis wide_tf32_parts[][AXES] = {
    NARROW_PART(tf32_tiles_k, FIRST(splits, 1)),        NARROW_PART(tf32_tiles_k, FROM(splits, 1)),
    BULK_PART(tf32_tiles_k, FIRST(splits, 1)),          BULK_PART(tf32_tiles_k, FROM(splits, 1)),
    PERSISTENT_PART(0, tf32_tiles_k, FIRST(splits, 1)),
};

static bool has_wgmma(const struct target *target) { return strcmp(target->text, "sm_90a") == 0; }

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t shared_max(const struct target *target)
{
    switch (target_capability(target)) {
    case 80:
    case 87: return 164 * 1024;
    case 86:
    case 89:
    case 120:
    case 121: return 100 * 1024;
    default: return 228 * 1024;
    }
}

/* Rates of packing, of wgmma, and of mma.sync in the vector path.  They were measured on an H200
 * with 16 of ResNet-50's problems in NCHW. */
#define PACKED_BYTES_PER_US 3.5e6
#define TF32_FLOPS_PER_US 300e6
#define TF32_VECTOR_FLOPS_PER_US 100e6
/* The vector path's rate for backward data with strides, and for backward weights. */
#define TF32_STRIDED_FLOPS_PER_US 50e6
/* The vector path's rates of copying pixels.  The second is for copies of 4 bytes, with strides or
 * with planes whose size is not a multiple of four. */
#define VECTOR_BYTES_PER_US 1.8e6
#define VECTOR_ODD_BYTES_PER_US 0.55e6

/* The rate of mma.sync with groups, if no channels are padded.  It is an estimate. */
#define TF32_GROUPED_FLOPS_PER_US 80e6

static double pad_by(uint32_t count, uint32_t to)
{
    return (double)ceil_div(count, to) * to / count;
}

static double grouped_product_us(const struct problem *p)
{
    uint32_t c = p->c / p->groups, k = p->k / p->groups;
    bool is_forward = p->direction == DIRECTION_FORWARD;
    double padding =
        pad_by(is_forward ? k : c, tiles_n[0]) * pad_by(is_forward ? c : k, tf32_tiles_k[0]);
    return problem_flops(p) * padding / TF32_GROUPED_FLOPS_PER_US;
}

static double vector_bytes_per_us(const struct problem *p, bool is_strided)
{
    struct extent out = problem_output(p);
    bool is_odd = is_strided || out.d * out.h * out.w % 4 != 0;
    return p->direction != DIRECTION_BACKWARD_WEIGHTS && is_odd ? VECTOR_ODD_BYTES_PER_US
                                                                : VECTOR_BYTES_PER_US;
}

static double packed_bytes(const struct problem *p, bool keeps_result)
{
    uint64_t x = problem_x_elements(p), y = problem_y_elements(p);
    uint64_t source = p->direction == DIRECTION_FORWARD ? x : y;
    return (double)(keeps_result ? source : x + y) * sizeof(float);
}

/* Returns whether an fp32 product on wgmma, including the time to pack tensors with channels first,
 * is faster than the vector path, which reads them in place. */
static bool packing_pays(const struct problem *p, const struct target *target,
                         const struct packing *packing)
{
    bool is_strided =
        p->direction == DIRECTION_BACKWARD_WEIGHTS ||
        (p->direction == DIRECTION_BACKWARD_DATA && p->stride.d * p->stride.h * p->stride.w > 1);
    double bytes = (double)(problem_x_elements(p) + problem_y_elements(p)) * sizeof(float);
    double product = p->groups > 1 ? grouped_product_us(p) : problem_flops(p) / TF32_FLOPS_PER_US;
    double copy = bytes / PACKED_BYTES_PER_US;
    uint32_t columns = p->direction == DIRECTION_FORWARD ? p->k : p->c;
    bool keeps_result =
        target->has_tensor_maps && columns > WIDE_COLUMNS_MIN && !is_strided && p->groups == 1;
    double wide =
        2 * packed_bytes(p, keeps_result) / PACKED_BYTES_PER_US + (product > copy ? product : copy);
    double vector =
        problem_flops(p) / (is_strided ? TF32_STRIDED_FLOPS_PER_US : TF32_VECTOR_FLOPS_PER_US);
    double read = bytes / vector_bytes_per_us(p, is_strided);
    if (read > vector)
        vector = read;
    if (p->groups > 1 && p->direction == DIRECTION_BACKWARD_WEIGHTS)
        return false; /* for three layers of RegNetY, the vector path was as fast as wgmma */
    return has_wgmma(target) && packing->narrow_c == 0 && wide < vector;
}

static bool reads_planes(const struct problem *p, const struct target *target)
{
    return has_wgmma(target) && target->has_tensor_maps && bulk_reads_planes(p);
}

static bool applies(const struct problem *p, const struct target *target)
{
    struct packing packing;
    if (target_capability(target) < 80 || !product_covers(p, /* has_tf32= */ true, &packing))
        return false;
    bool is_last = p->x_layout == LAYOUT_CHANNELS_LAST && p->y_layout == LAYOUT_CHANNELS_LAST;
    return p->type != TYPE_FLOAT32 || is_last || reads_planes(p, target) ||
           packing_pays(p, target, &packing);
}

static bool is_favoured(const struct problem *p, const struct target *target)
{
    (void)target;
    return product_is_favoured(p);
}

static struct perf_space space(const struct problem *p, const struct target *target)
{
    bool is_tf32 = p->type == TYPE_FLOAT32;
    if (has_wgmma(target) && is_tf32)
        return (struct perf_space){ wide_tf32_axes, AXES, wide_tf32_parts[0],
                                    COUNT(wide_tf32_parts) };
    if (is_tf32)
        return (struct perf_space){ .axes = tf32_axes, .count = AXES };
    if (has_wgmma(target))
        return (struct perf_space){ wide_axes, AXES, wide_parts[0], COUNT(wide_parts) };
    return (struct perf_space){ .axes = axes, .count = AXES };
}

struct cost {
    struct packing packing;
    struct product product;
    struct product_tiling tiling;
    uint32_t registers; /* estimated registers of one thread */
    uint32_t occupancy; /* work groups that are resident on one multiprocessor */
};

/* Registers of a thread in addition to its sums.  With fewer, ptxas rejects the program. */
#define BULK_REGISTERS 26u
#define PERSISTENT_REGISTERS 32u
#define REGISTERS_STEP 8u /* a thread's number of registers is a multiple of this */

static uint32_t registers_of(const uint16_t *v, const struct product_tiling *t, bool has_residues)
{
    uint32_t warp_m = v[TILE_M] / v[WARPS_M], warp_n = v[TILE_N] / v[WARPS_N];
    uint32_t sums = warp_m * warp_n / 32;
    if (t->is_bulk) {
        uint32_t all = sums + (t->is_persistent ? PERSISTENT_REGISTERS : BULK_REGISTERS);
        if (t->turns_right || t->holds_left)
            all += 2 * v[TILE_K] * warp_m / 32;
        return (all + REGISTERS_STEP - 1) / REGISTERS_STEP * REGISTERS_STEP;
    }
    uint32_t operands = v[WIDE] ? 8 : 2 * (warp_m / 4 + warp_n / 4);
    uint32_t rows = v[TILE_M] * v[TILE_K] * t->element / 16 /
                    t->threads; /* 16-byte chunks that one item copies */
    return sums + operands + 16 + 2 * (rows > 4 ? rows - 4 : 0) + (has_residues ? 16 : 0);
}

/* Returns the number of persistent groups.  The persistent groups fill the device, and all except
 * the last one compute the same number of tiles.  The number of groups is an argument of the
 * launch, so devices of all sizes share the code object. */
static uint32_t persistent_groups(uint64_t tiles, const struct target *target, uint32_t occupancy)
{
    uint64_t together =
        (uint64_t)(target->processors ? target->processors : PROCESSORS) * occupancy;
    uint64_t rounds = (tiles + together - 1) / together;
    return (uint32_t)((tiles + rounds - 1) / rounds);
}

/* Returns whether the right operand is transposed in shared memory. wgmma reads TF32 only if
 * elements along the reduction are contiguous.  For backward weights, they are contiguous in
 * neither operand, unless the tensors have channels first. */
static bool turns_right(const struct problem *p)
{
    return p->type == TYPE_FLOAT32 && p->direction == DIRECTION_BACKWARD_WEIGHTS &&
           !bulk_reads_planes(p);
}

/* Returns whether the left operand is loaded into registers.  This is needed where it would have to
 * be transposed, which wgmma cannot do with TF32 in shared memory. */
static bool holds_left(const struct problem *p)
{
    return p->type == TYPE_FLOAT32 && p->direction != DIRECTION_BACKWARD_WEIGHTS &&
           bulk_reads_planes(p);
}

static void cost_of(const struct problem *p, const struct target *target, const uint16_t *v,
                    struct cost *ret)
{
    struct product_tiling *t = &ret->tiling;
    packing_of(p, &ret->packing);
    if (v[WIDE] >= WIDE_BULK)
        bulk_adapt(p, &ret->packing);
    ret->product = product_of(&ret->packing, v[TILE_K]);
    *t = (struct product_tiling){ .tile_m = v[TILE_M],
                                  .tile_n = v[TILE_N],
                                  .tile_k = v[TILE_K],
                                  .element = (uint32_t)data_type_size((enum data_type)p->type),
                                  .warps_m = v[WARPS_M],
                                  .warps_n = v[WARPS_N],
                                  .stages = v[STAGES],
                                  .band = v[BAND],
                                  .is_wide = v[WIDE] != NARROW,
                                  .is_bulk = v[WIDE] >= WIDE_BULK,
                                  .is_persistent = v[WIDE] == WIDE_PERSISTENT,
                                  .turns_right = v[WIDE] == WIDE_BULK && turns_right(p),
                                  .holds_left = v[WIDE] == WIDE_BULK && holds_left(p),
                                  .threads = 32u * v[WARPS_M] * v[WARPS_N] };
    if (t->is_bulk)
        t->threads += 32; /* the additional warp only copies */
    product_slice(&ret->product, v[SPLIT], t);
    if (t->is_bulk)
        bulk_keep_result(p, t, &ret->packing);
    t->has_result_planes = ret->packing.has_result_planes;
    if (v[WIDE] == WIDE_BULK)
        t->stages = least(t->stages, t->slice);
    t->shared = product_tile_bytes(t, v[WIDE] == NARROW ? least(t->stages, t->slice) : t->stages);
    ret->registers = registers_of(v, t, ret->product.residues > 1);
    uint32_t fit = least(REGISTERS / (ret->registers * t->threads), THREADS_MAX / t->threads);
    ret->occupancy =
        least(least(shared_max(target) / (t->shared + SHARED_RESERVED), fit), OCCUPANCY_MAX);
    if (t->is_persistent && ret->occupancy)
        t->groups = persistent_groups(product_groups(&ret->packing, &ret->product, t), target,
                                      ret->occupancy);
}

static bool has_idle_stages(const uint16_t *v, uint32_t slice)
{
    switch (v[WIDE]) {
    case NARROW: return v[STAGES] > 2 && v[STAGES] > slice + 1;
    case WIDE_ASYNC: return v[STAGES] > 3 && v[STAGES] > slice + 2;
    case WIDE_BULK: return v[STAGES] > 3 && v[STAGES] > slice;
    default: return false;
    }
}

/* Rejects points that were never near the best in 1442 trials, and points that differ from another
 * one only in resources that they do not use. */
static bool is_redundant(const struct problem *p, const uint16_t *v, const struct cost *c)
{
    uint32_t warp_sums = v[TILE_M] / v[WARPS_M] * (v[TILE_N] / v[WARPS_N]);
    if (v[WIDE] && (v[CACHE] || c->product.columns <= WIDE_COLUMNS_MIN))
        return true;
    if (warp_sums < WARP_SUMS_MIN / (v[WIDE] ? 2 : 1) ||
        (v[WARPS_M] * v[WARPS_N] > (v[WARPS_M] == 12 ? 12 : 8) && warp_sums < 2 * WARP_SUMS_MIN))
        return true;
    /* The L1 cache only helps backward weights, where neighbouring items read the same pixel. */
    if (v[CACHE] && p->direction != DIRECTION_BACKWARD_WEIGHTS)
        return true;
    return product_is_redundant(&c->packing, &c->product, &c->tiling, v[SPLIT]) ||
           has_idle_stages(v, c->tiling.slice);
}

/* Returns whether a size has a factor of three.  cp.async distributes copies evenly over the items
 * only if sizes are powers of two. */
static bool is_of_three(const uint16_t *v)
{
    return v[TILE_M] == 192 || v[TILE_N] == 192 || v[WARPS_M] == 12;
}

/* wgmma multiplies 64 rows at a time for a team, and a transposed operand is stored in panels of 64
 * columns.  The previous tile is still being multiplied while the next ones are copied.  So there
 * must be at least three stages, or two for WIDE_PERSISTENT, where the copies of the next tile
 * overlap with the end of the current one. */
static bool is_wide_shape(const struct problem *p, const struct target *target, const uint16_t *v)
{
    if (!has_wgmma(target) || v[WARPS_M] < 4 || v[STAGES] < 3 - (v[WIDE] == WIDE_PERSISTENT) ||
        v[WARPS_N] > 2 || v[TILE_M] % (v[WARPS_M] / 4) || v[TILE_N] % v[WARPS_N])
        return false;
    uint32_t team_m = v[TILE_M] / (v[WARPS_M] / 4), team_n = v[TILE_N] / v[WARPS_N];
    return team_m % 64 == 0 &&
           team_n >= (p->direction == DIRECTION_FORWARD || p->type == TYPE_FLOAT32 ? 32 : 64) &&
           team_m * team_n <= WIDE_SUMS_MAX && team_n != 96 &&
           (v[WIDE] >= WIDE_BULK || !is_of_three(v));
}

/* wgmma ignores the bits of an fp32 operand that TF32 does not have, so it needs bulk copies, which
 * round. */
static bool has_wide_tf32(const uint16_t *v) { return v[WIDE] >= WIDE_BULK; }

/* Returns the maximum number of registers of a thread.  Each quarter of a multiprocessor has a
 * quarter of the registers and runs whole warps. */
static uint32_t registers_max(uint32_t threads)
{
    return least(THREAD_REGISTERS_MAX, REGISTERS / ((threads + 127) / 128 * 128));
}

static bool config_is_valid(const struct problem *p, const struct target *target,
                            const struct perf_config *config)
{
    const uint16_t *v = config->values;
    uint32_t warp_m = v[TILE_M] / v[WARPS_M], warp_n = v[TILE_N] / v[WARPS_N];
    if (v[WIDE] && p->type == TYPE_FLOAT32 && !has_wide_tf32(v))
        return false;
    if (v[WIDE] ? !is_wide_shape(p, target, v)
                : v[WARPS_M] > 4 || is_of_three(v) || warp_m % 16 || warp_n % 16 ||
                      warp_m > 64 + 64 * (warp_n <= 32) || warp_n > 128)
        return false;
    struct cost c;
    cost_of(p, target, v, &c);
    if (v[WIDE] == WIDE_PERSISTENT && !bulk_result_fits(&c.packing, &c.tiling))
        return false;
    if (v[WIDE] >= WIDE_BULK && (!target->has_tensor_maps || !bulk_fits(&c.packing, &c.tiling)))
        return false;
    uint64_t groups = product_groups(&c.packing, &c.product, &c.tiling);
    return !is_redundant(p, v, &c) && c.tiling.threads >= 64 && c.occupancy >= 1 &&
           c.registers <= registers_max(c.tiling.threads) &&
           geometry_is_launchable(target, groups, c.tiling.threads);
}

/*
 * estimate_async, estimate_bulk and estimate_persistent return the time of a launch in
 * microseconds.  For each tile along the reduction, the matrix cores, the reads from shared memory
 * and the copies work in parallel.  So the slowest of them determines the time of the tile (a
 * roofline model: Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance
 * Model for Multicore Architectures", 2009).  The time of a work group is the time of its tiles,
 * plus its start and end.  Work groups run in rounds: as many at a time as are resident on all
 * multiprocessors.  Split-K adds the time of the final reduction.
 *
 * The constants were fitted to 1442 trials on an H200, with ResNet-50's 69 problems in fp16.  The
 * constants for TF32 were not measured.
 */
#define CYCLES_PER_US 1700.0
#define FMA_PER_CYCLE 1200.0 /* rate of one multiprocessor with mma.sync */
/* Not measured: half of the rate in fp16. */
#define TF32_FMA_PER_CYCLE 600.0
#define WIDE_FMA_PER_CYCLE 2100.0 /* rate of one multiprocessor with wgmma */
#define WIDE_STEP_CYCLES 50.0     /* overhead of a tile along the reduction */
#define WIDE_STAGES 4
#define SHARED_BYTES_PER_CYCLE 116.0 /* from shared memory to registers */
#define COPY_BYTES_PER_CYCLE 115.0   /* from the L2 cache */
/* Backward weights: the time to compute the address of each 16-byte copy. */
#define WEIGHTS_CHUNK_CYCLES 0.084
/* Cycles of the start and the end of a work group. */
#define FILL_CYCLES 3100.0
#define BASE_US 11.0 /* overhead of a launch */
#define REDUCE_BYTES_PER_US 6.0e6
#define REDUCE_US 5.0
/* The constants for WIDE_BULK were fitted to 459 trials. */
#define BULK_FMA_PER_CYCLE 2400.0
#define BULK_BYTES_PER_CYCLE 80.0
#define BULK_RESULT_CYCLES 0.11 /* time to store an element of the result */
/* The time to store an fp32 sum of a slice, and to add it up at the end. */
#define BULK_SUM_CYCLES 0.30
/* In forward and backward data, copying a tile's pixels with an im2col map takes IM2COL_CYCLES, and
 * IM2COL_ROW_CYCLES more for each pixel (fitted to 10 tilings of layers with long sums). */
#define IM2COL_CYCLES 250.0
#define IM2COL_ROW_CYCLES 1.35
#define BULK_LONE_TEAM 1.25 /* slowdown if only one team is resident */
#define BULK_BASE_US 3.6
#define BULK_REDUCE_US 8.2
/* The constants for WIDE_PERSISTENT were fitted to 970 trials.  A kernel with WIDE_PERSISTENT
 * stores results while the next tile is multiplied. */
#define PERSISTENT_FMA_PER_CYCLE 2770.0
#define PERSISTENT_BYTES_PER_CYCLE 76.0
#define PERSISTENT_RESULT_CYCLES 0.10
#define PERSISTENT_RING 0.7 /* part of a tile's time that two stages do not hide */
#define PERSISTENT_BASE_US 3.3

/*
 * Returns the cycles of a work group that is alone on a multiprocessor: tiles * (max(multiply,
 * read, copy) + overhead).
 *
 *     multiply  M * N * K products, at the rate of the matrix cores
 *     read      WARPS_N * M * K + WARPS_M * N * K elements from shared memory: each warp reads its
 *               rows and its columns, and WARPS_N warps read the same rows, WARPS_M the same
 *               columns.  With wgmma, read is 0, because the rate of wgmma includes its reads
 *     copy      (M + N) * K elements from the L2 cache
 *
 * Example: tiles of 128 x 128 x 32 in fp16, 2 x 2 warps.  524 288 products take 437 cycles, reads
 * of 32 KiB 282 cycles, copies of 16 KiB 142 cycles.  So the matrix cores determine the time of
 * this tile.
 */
static double group_cycles(const struct problem *p, const uint16_t *v, uint32_t tiles)
{
    double products = (double)v[TILE_M] * v[TILE_N] * v[TILE_K];
    double elements = ((double)v[TILE_M] + v[TILE_N]) * v[TILE_K];
    double shares = (double)v[WARPS_M] / v[TILE_M] + (double)v[WARPS_N] / v[TILE_N];
    double size = (double)data_type_size((enum data_type)p->type);
    double narrow_rate = p->type == TYPE_FLOAT32 ? TF32_FMA_PER_CYCLE : FMA_PER_CYCLE;
    double multiply = products / (v[WIDE] ? WIDE_FMA_PER_CYCLE : narrow_rate);
    double read = v[WIDE] ? 0 : products * shares * size / SHARED_BYTES_PER_CYCLE;
    double copy = elements * size / COPY_BYTES_PER_CYCLE;
    double most = multiply > read ? multiply : read;
    if (copy > most)
        most = copy;
    if (p->direction == DIRECTION_BACKWARD_WEIGHTS)
        most += elements * size / 16 * WEIGHTS_CHUNK_CYCLES;
    return (most + (v[WIDE] ? WIDE_STEP_CYCLES : 0)) * tiles;
}

static double together_of(const struct cost *c, double groups)
{
    return least(c->occupancy, (uint32_t)(groups / PROCESSORS) + 1);
}

static double rounds_of(double groups, double together)
{
    return (double)(uint64_t)((groups + PROCESSORS * together - 1) / (PROCESSORS * together));
}

static double estimate_async(const struct problem *p, const uint16_t *v, const struct cost *c,
                             double groups)
{
    double together = together_of(c, groups);
    double cycles =
        group_cycles(p, v, c->tiling.slice) * together * (1 + 0.1 / (together * (v[STAGES] - 1)));
    double us = BASE_US + rounds_of(groups, together) * (cycles + FILL_CYCLES) / CYCLES_PER_US;
    if (c->tiling.slices > 1)
        us += REDUCE_US + (double)c->product.rows * (double)c->product.columns *
                              c->product.residues * c->packing.problem.groups * 8 *
                              c->tiling.slices / REDUCE_BYTES_PER_US;
    return us;
}

/* wgmma and copies take twice as long for a TF32 element as for an fp16 element. */
static double scale_of(const struct cost *c) { return c->tiling.element / 2.0; }

static double copy_cycles(const uint16_t *v, const struct cost *c, double bytes_per_cycle)
{
    bool is_for_weights = c->packing.problem.direction == DIRECTION_BACKWARD_WEIGHTS;
    double bytes = ((double)v[TILE_M] + v[TILE_N]) * v[TILE_K] * c->tiling.element;
    double copy = bytes / bytes_per_cycle, address = IM2COL_CYCLES + v[TILE_M] * IM2COL_ROW_CYCLES;
    return is_for_weights || bulk_is_flat(&c->packing) || copy > address ? copy : address;
}

/* Returns the cycles that shared memory takes for a tile along the reduction, if the right operand
 * is transposed.  In a cycle, it transfers 128 bytes, which is one row of a tile.  Bulk copies
 * write each row once.  Rows of the left operand are read once by each team.  Rows of the right
 * operand are read and written to transpose them, and are then read by each team along M. Three
 * measured tilings took 0.91 to 1.01 times the result. */
static double turning_cycles(const uint16_t *v)
{
    return v[TILE_M] * (1.0 + v[WARPS_N]) + v[TILE_N] * (3.0 + v[WARPS_M] / 4.0);
}

/* Returns the cycles that shared memory takes for a tile along the reduction, if the left operand
 * is loaded into registers.  The lanes of a warp then access each bank twice. */
static double holding_cycles(const uint16_t *v)
{
    return v[TILE_M] * (1.0 + 2 * v[WARPS_N]) + v[TILE_N] * (1.0 + v[WARPS_M] / 4.0);
}

static double estimate_bulk(const uint16_t *v, const struct cost *c, double groups)
{
    bool is_cut = c->tiling.slices > 1;
    double elements = (double)v[TILE_M] * v[TILE_N];
    double depth = v[TILE_K] * scale_of(c);
    double multiply = elements * depth / BULK_FMA_PER_CYCLE;
    double copy = copy_cycles(v, c, BULK_BYTES_PER_CYCLE);
    double together = together_of(c, groups);
    double step = multiply > copy ? multiply : copy;
    if (v[WARPS_M] * v[WARPS_N] * together < 8)
        step *= BULK_LONE_TEAM;
    if (c->tiling.turns_right && turning_cycles(v) > step)
        step = turning_cycles(v);
    if (c->tiling.holds_left && holding_cycles(v) > step)
        step = holding_cycles(v);
    /* If the right operand is transposed, more than four stages only help narrow tiles. */
    uint32_t useful = c->tiling.turns_right && v[TILE_N] >= 128 ? 4 : v[STAGES];
    double idle = 0.1 / (least(v[STAGES], useful) - 1);
    double cycles =
        step * c->tiling.slice * (together + idle) +
        elements * (is_cut ? BULK_SUM_CYCLES : BULK_RESULT_CYCLES * scale_of(c)) * together;
    return BULK_BASE_US + rounds_of(groups, together) * (cycles + FILL_CYCLES) / CYCLES_PER_US +
           (is_cut ? BULK_REDUCE_US : 0);
}

static double estimate_persistent(const uint16_t *v, const struct cost *c, double groups)
{
    double elements = (double)v[TILE_M] * v[TILE_N];
    double depth = v[TILE_K] * scale_of(c);
    double multiply = elements * depth / PERSISTENT_FMA_PER_CYCLE;
    double copy = copy_cycles(v, c, PERSISTENT_BYTES_PER_CYCLE);
    double step = multiply > copy ? multiply : copy;
    double together = together_of(c, groups);
    double cycles = step * c->tiling.slice * (together + PERSISTENT_RING / (v[STAGES] - 1)) +
                    elements * PERSISTENT_RESULT_CYCLES * scale_of(c) * together;
    return PERSISTENT_BASE_US + rounds_of(groups, together) * cycles / CYCLES_PER_US;
}

static double estimate(const struct problem *p, const struct target *target, const uint16_t *v)
{
    struct cost c;
    cost_of(p, target, v, &c);
    double groups = (double)product_groups(&c.packing, &c.product, &c.tiling) *
                    c.product.residues_busy / c.product.residues;
    switch (v[WIDE]) {
    case WIDE_PERSISTENT: return estimate_persistent(v, &c, groups);
    case WIDE_BULK: return estimate_bulk(v, &c, groups);
    default: return estimate_async(p, v, &c, groups);
    }
}

enum { SHAPE_M, SHAPE_N, SHAPE_WARPS_M, SHAPE_WARPS_N, SHAPE_WIDE, SHAPE };

struct choice {
    struct perf_config config;
    double us; /* 0: no valid config yet */
};

static const uint16_t shapes[][SHAPE] = {
    { 128, 256, 8, 1, 1 }, { 256, 128, 8, 1, 1 }, { 128, 128, 8, 1, 1 }, { 128, 64, 8, 1, 1 },
    { 64, 128, 4, 1, 1 },  { 64, 64, 4, 1, 1 },   { 64, 256, 4, 1, 1 },  { 256, 128, 4, 2 },
    { 128, 256, 2, 4 },    { 128, 128, 2, 2 },    { 128, 128, 2, 4 },    { 256, 64, 4, 1 },
    { 128, 64, 2, 2 },     { 64, 128, 2, 2 },     { 64, 64, 2, 2 },      { 64, 256, 1, 4 },
    { 256, 32, 4, 1 },     { 128, 32, 4, 1 },     { 64, 32, 2, 1 }
};

static const uint16_t bulk_shapes[][SHAPE_WIDE] = { { 192, 128, 12, 1 }, { 128, 128, 8, 1 },
                                                    { 128, 256, 8, 1 },  { 256, 128, 8, 1 },
                                                    { 128, 192, 8, 1 },  { 64, 128, 4, 1 },
                                                    { 128, 64, 8, 1 },   { 64, 64, 4, 1 } };

static void consider(const struct problem *p, const struct target *target, const uint16_t *shape,
                     uint16_t wide, struct choice *best)
{
    for (size_t j = 0; j < axes[TILE_K].count * axes[STAGES].count * axes[SPLIT].count; j++) {
        struct perf_config c = { AXES, { shape[SHAPE_M], shape[SHAPE_N] } };
        c.values[TILE_K] =
            (p->type == TYPE_FLOAT32 ? tf32_tiles_k : tiles_k)[j % axes[TILE_K].count];
        c.values[WARPS_M] = shape[SHAPE_WARPS_M];
        c.values[WARPS_N] = shape[SHAPE_WARPS_N];
        c.values[STAGES] = stages[j / axes[TILE_K].count % axes[STAGES].count];
        c.values[SPLIT] = splits[j / axes[TILE_K].count / axes[STAGES].count];
        c.values[BAND] = bands[0];
        c.values[WIDE] = wide;
        if (wide == WIDE_ASYNC && (c.values[TILE_K] != 64 || c.values[STAGES] != WIDE_STAGES))
            continue;
        if (!config_is_valid(p, target, &c))
            continue;
        double us = estimate(p, target, c.values);
        if (best->us == 0 || us < best->us)
            *best = (struct choice){ c, us };
    }
}

/* Minimum number of tiles along the reduction for which transposing the right operand is worth
 * it. */
#define TURNED_STEPS_MIN 5u

static bool wants_bulk(const struct problem *p, const struct target *target)
{
    struct packing packing;
    packing_of(p, &packing);
    return target->has_tensor_maps && has_wgmma(target) &&
           (!turns_right(p) || product_of(&packing, tf32_tiles_k[1]).tiles >= TURNED_STEPS_MIN);
}

/* Prefers bulk copies, without comparing the estimates: the models were fitted separately. */
static void choose_config(const struct problem *p, const struct target *target,
                          struct perf_config *ret)
{
    struct choice best = { .us = 0 };
    bool has_bulk = wants_bulk(p, target);
    for (size_t i = 0; i < sizeof(bulk_shapes) / sizeof(bulk_shapes[0]) && has_bulk; i++) {
        consider(p, target, bulk_shapes[i], WIDE_BULK, &best);
        consider(p, target, bulk_shapes[i], WIDE_PERSISTENT, &best);
    }
    has_bulk = best.us > 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]) && !has_bulk; i++)
        consider(p, target, shapes[i], shapes[i][SHAPE_WIDE], &best);
    *ret = best.config;
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
