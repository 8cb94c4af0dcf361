/* SPDX-License-Identifier: MIT */
/*
 * ConvImplicitGemm on sm_90a: wgmma with tiles that bulk tensor copies (TMA) load.
 *
 * The products, tensors and options are those of conv_implicit_gemm_mma.cl, with the options below
 * added or restricted.  Only the copies differ.  One additional warp starts the copies into a
 * ring of KILN_STAGES tiles.  The copying warp waits only for free stages, and the other warps wait
 * only for full ones.
 *
 *   KILN_FLAT     1 for a 1x1 filter with stride 1 and no padding, where pixels are numbered
 *                 consecutively; else 0 (im2col)
 *   KILN_TILE_K   64, or 32 in TF32: a row of a tile has 128 bytes
 *   KILN_LASTING  1: persistent work groups, which compute several tiles.  Copies for the next tile
 *                 arrive while bulk copies store the previous result.  Requires one group of
 *                 channels, no slices and no residue classes
 *   KILN_PLANES   1: x and y have channels first, and are used as they are.  Requires KILN_FLAT,
 *                 one group of channels, and planes and channels in multiples of 16 bytes.  TF32
 *                 also requires that KILN_LASTING is 0
 *   KILN_RESULT_PLANES
 *                 1: only the result has channels first.  Requires one group of channels, no slices
 *                 and no residue classes
 *
 * With KILN_PLANES, backward weights sums over pixels, along which both operands are contiguous in
 * memory.  In the other directions, the left operand is not contiguous along the reduction.  In
 * fp16 and bf16, wgmma transposes it, and bulk copies store the result, whose pixels must be
 * contiguous.  In TF32, the warps load it into registers.
 *
 * Backward weights in TF32 with channels last: neither operand is contiguous along the reduction,
 * but wgmma needs this for TF32.  So the warps load the left operand into registers, and transpose
 * the right one in shared memory.
 *
 * Backward data with strides has a map of y for each residue class, because each class is a
 * separate convolution.
 *
 * In backward weights, a panel of 64 columns must belong to one tap.  So the channels of a group
 * must be a multiple of 64, unless KILN_FLAT is 1.
 */
#include "kiln/bulk_copies.h"
#include "kiln/conv_mma_place.h"
#include "kiln/conv_view.h"
#include "kiln/prelude.h"

/* Whether the pixels' maps have the dimension d (is_volume in engine/solver/conv_bulk.c). */
#define VOLUME (KILN_IN_D > 1 || KILN_FILTER_D > 1 || KILN_PAD_D > 0 || KILN_STRIDE_D > 1)

#define THREADS (KILN_WAVE * KILN_WARPS_M * KILN_WARPS_N) /* items that multiply */

#define LEFT_BYTES (KILN_TILE_M * KILN_TILE_K * KILN_ELEMENT)
#define RIGHT_BYTES (KILN_TILE_N * KILN_TILE_K * KILN_ELEMENT)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define PANEL (128 / KILN_ELEMENT) /* contiguous columns of a transposed operand */
#define PANEL_BYTES (KILN_TILE_K * 128)
#define TILES_BYTES (KILN_STAGES * STAGE_BYTES)

/* Whether the left operand is loaded into registers. */
#define HOLDS (KILN_PLANES && !WEIGHTS && KILN_TYPE == 0)
/* Whether the right operand is transposed in shared memory. */
#define TURNS (WEIGHTS && KILN_TYPE == 0 && !KILN_PLANES)
#define TURNED_BYTES (KILN_TILE_N * KILN_TILE_K * KILN_ELEMENT)
/* Each team stores its results from its own boxes in shared memory; bulk copies may do that. */
#define STORES_BOXES \
    (STORES_SUMS ? KILN_LASTING && !KILN_RESULT_PLANES : KILN_LASTING || HAS_PLANES)
#define STORES_IN_BULK (STORES_BOXES && !KILN_RESULT_PLANES)

#if STORES_SUMS && !STORES_BOXES /* results are stored from registers */
#define RESULT_BYTES 0
#else
#define RESULT_BYTES (KILN_TILE_M * KILN_TILE_N * KILN_ELEMENT)
#endif
/* Results are staged in the space of the tiles, unless the tiles are already being refilled.  The
 * barriers of the ring are never overwritten. */
#if TURNS
#define SIGNALS_AT (TILES_BYTES + 2 * TURNED_BYTES)
#elif KILN_LASTING
#define SIGNALS_AT (TILES_BYTES + RESULT_BYTES)
#else
#define SIGNALS_AT (TILES_BYTES > RESULT_BYTES ? TILES_BYTES : RESULT_BYTES)
#endif

#define N_CHUNKS (KILN_TILE_N / 8)
#define PASSES(chunks) (((chunks) + THREADS - 1) / THREADS)
#define HAS_CHUNK(pass, chunks) ((chunks) % THREADS == 0 || (pass)*THREADS + kiln_item() < (chunks))

KILN_INLINE kiln_u32 turn(kiln_u32 row, kiln_u32 chunk, kiln_u32 chunks)
{
    return chunk ^ (chunks >= 8 ? row & 7 : chunks == 4 ? row >> 1 & 3 : row >> 2 & 1);
}

/* A team (four warps) multiplies 64 rows at a time; each warp has 16 of them. */
#define BLOCK_ROWS 64
#define WARP_M (KILN_TILE_M * 4 / KILN_WARPS_M)
#define WARP_N (KILN_TILE_N / KILN_WARPS_N)
#define BLOCKS_M (WARP_M / BLOCK_ROWS)
#define BLOCKS_N (WARP_N / KILN_BLOCK_N)

KILN_INLINE kiln_u32 first_row(void) { return kiln_item() / 128 / KILN_WARPS_N * WARP_M; }
KILN_INLINE kiln_u32 first_column(void) { return kiln_item() / 128 % KILN_WARPS_N * WARP_N; }
KILN_INLINE kiln_u32 block_row(int block)
{
    return first_row() + block * BLOCK_ROWS + kiln_item() / KILN_WAVE % 4 * 16;
}

#define KILN_WIDE_COLUMNS KILN_WIDE
/* These must be literals, because they become part of an instruction's text.  wgmma transposes no
 * TF32. */
#if WEIGHTS ? !KILN_PLANES : KILN_PLANES && KILN_TYPE != 0
#define KILN_LEFT_TURNED 1
#else
#define KILN_LEFT_TURNED 0
#endif
/* In TF32, weights were packed, or tiles are transposed in shared memory. */
#if FORWARD || KILN_TYPE == 0 || (WEIGHTS && KILN_PLANES)
#define KILN_RIGHT_TURNED 0
#else
#define KILN_RIGHT_TURNED 1
#endif
#include "kiln/wide_products.h"

KILN_INLINE kiln_wide_operand operand_of(kiln_tiles shared, kiln_u32 at, int turned, kiln_u32 first,
                                         int step)
{
    return turned ? kiln_wide_turned(shared, at + first / PANEL * PANEL_BYTES + step * 2048,
                                     PANEL_BYTES)
                  : kiln_wide_plain(shared, at + first * (KILN_TILE_K * KILN_ELEMENT) + step * 32,
                                    KILN_TILE_K * KILN_ELEMENT);
}

KILN_INLINE void multiply_tile(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared, kiln_u32 at)
{
    kiln_wide_begin();
    KILN_UNROLLED
    for (int step = 0; step < KILN_TILE_K / KILN_STEP; step++) {
        kiln_wide_operand b =
            operand_of(shared, at + LEFT_BYTES, KILN_RIGHT_TURNED, first_column(), step);
        KILN_UNROLLED
        for (int i = 0; i < BLOCKS_M; i++)
            kiln_multiply_wide(
                sum[i], operand_of(shared, at, KILN_LEFT_TURNED, first_row() + i * 64, step), b);
    }
    kiln_wide_end();
}

/* A barrier for the multiplying warps only. */
#define RESULT_BARRIER() asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory")
#include "kiln/conv_mma_result.h"

/* Each stage has two barriers, "full" and "free". */
KILN_INLINE kiln_signal full_of(kiln_tiles shared, kiln_u32 stage)
{
    return shared + SIGNALS_AT + stage * 16;
}
KILN_INLINE kiln_signal free_of(kiln_tiles shared, kiln_u32 stage)
{
    return full_of(shared, stage) + 8;
}

struct maps {
    const kiln_tensor_map *left, *right;
};

/* A warp's position in the ring: the stage, and the parity of the phase to wait for. */
struct turn {
    kiln_u32 stage, phase;
};

KILN_INLINE void turn_on(struct turn *at)
{
    if (++at->stage == KILN_STAGES) {
        at->stage = 0;
        at->phase ^= 1;
    }
}

/* The next step of the reduction, for a tile's rows (for backward weights: for its columns). */
struct cursor {
    kiln_u32 pixel; /* backward weights: a pixel of y; KILN_FLAT: the tile's first row */
    int w, h, d;    /* source pixel for the first pixel and the first tap */
    kiln_u32 n;
    /* Channel and tap of the source.  Only contributing taps are numbered. */
    kiln_u32 c, tap_w, tap_h, tap_d;
};

KILN_INLINE void cursor_move(const struct view *v, struct cursor *at, kiln_u32 index)
{
    struct pixel p = pixel_at(v, index);
    at->pixel = index;
    at->n = p.n;
    at->w = (int)p.w * v->w.scale + v->w.origin;
    at->h = (int)p.h * v->h.scale + v->h.origin;
    at->d = (int)p.d * v->d.scale + v->d.origin;
#if DATA /* the box begins at the last tap */
    at->w += ((int)v->w.taps - 1) * v->w.hop;
    at->h += ((int)v->h.taps - 1) * v->h.hop;
    at->d += ((int)v->d.taps - 1) * v->d.hop;
#endif
}

/* Copies from channel |c| on.  tap_w, tap_h and tap_d are the tap's distance from the first tap, in
 * pixels. */
KILN_INLINE void copy_pixels(kiln_u32 to, const kiln_tensor_map *map, kiln_signal signal,
                             kiln_u32 c, const struct cursor *at, kiln_u32 tap_w, kiln_u32 tap_h,
                             kiln_u32 tap_d)
{
#if VOLUME
    kiln_bulk_voxels(to, map, signal, c, at->w, at->h, at->d, at->n, tap_w, tap_h, tap_d);
#else
    kiln_bulk_pixels(to, map, signal, c, at->w, at->h, at->n, tap_w, tap_h);
#endif
}

#if !WEIGHTS

KILN_INLINE struct cursor cursor_at(const struct view *v, const struct place *tile, kiln_u32 number)
{
    struct cursor at;
    kiln_u32 tap = number / C_TILES;
    at.c = number % C_TILES * KILN_TILE_K;
    at.tap_w = tap % (v->w.taps ? v->w.taps : 1);
    tap /= v->w.taps ? v->w.taps : 1;
    at.tap_h = tap % (v->h.taps ? v->h.taps : 1);
    at.tap_d = tap / (v->h.taps ? v->h.taps : 1);
    cursor_move(v, &at, tile->row);
    return at;
}

KILN_INLINE void advance(const struct view *v, struct cursor *at)
{
    at->c += KILN_TILE_K;
    if (at->c < SOURCE_C)
        return;
    at->c = 0;
    if (++at->tap_w < v->w.taps)
        return;
    at->tap_w = 0;
    if (++at->tap_h < v->h.taps)
        return;
    at->tap_h = 0;
    at->tap_d++;
}

KILN_INLINE void copy_tile(const struct maps *maps, kiln_u32 to, kiln_signal signal,
                           const struct view *v, const struct place *tile, const struct cursor *at)
{
    kiln_u32 row = (v->d.tap + at->tap_d * v->d.tap_step) * KILN_FILTER_H + v->h.tap +
                   at->tap_h * v->h.tap_step;
    kiln_u32 tap = row * KILN_FILTER_W + v->w.tap + at->tap_w * v->w.tap_step;
    kiln_u32 c = tile->group * SOURCE_C + at->c;
#if KILN_PLANES
    KILN_UNROLLED
    for (int i = 0; i < KILN_TILE_M / RUN_PIXELS; i++) {
        kiln_u32 run = at->pixel / RUN_PIXELS + i;
        kiln_bulk3(to + i * PANEL_BYTES, maps->left, signal, run % RUNS * RUN_PIXELS, c,
                   run / RUNS);
    }
#elif KILN_FLAT
    kiln_bulk2(to, maps->left, signal, c, at->pixel);
#elif FORWARD
    copy_pixels(to, maps->left, signal, c, at, at->tap_w * v->w.hop, at->tap_h * v->h.hop,
                at->tap_d * v->d.hop);
#else
    copy_pixels(to, maps->left, signal, c, at, (v->w.taps - 1 - at->tap_w) * (kiln_u32)-v->w.hop,
                (v->h.taps - 1 - at->tap_h) * (kiln_u32)-v->h.hop,
                (v->d.taps - 1 - at->tap_d) * (kiln_u32)-v->d.hop);
#endif
#if !KILN_RIGHT_TURNED
    kiln_bulk3(to + LEFT_BYTES, maps->right, signal, at->c, tap,
               tile->group * COLUMNS + tile->column);
#else
    KILN_UNROLLED
    for (int i = 0; i < KILN_TILE_N / PANEL; i++)
        kiln_bulk3(to + LEFT_BYTES + i * PANEL_BYTES, maps->right, signal, tile->column + i * PANEL,
                   tap, c);
#endif
}

#elif KILN_PLANES

KILN_INLINE struct cursor cursor_at(const struct view *v, const struct place *tile, kiln_u32 number)
{
    struct cursor at = { 0 };
    (void)v;
    (void)tile;
    at.n = number / RUNS;
    at.pixel = number % RUNS * RUN_PIXELS;
    return at;
}

KILN_INLINE void advance(const struct view *v, struct cursor *at)
{
    (void)v;
    at->pixel += RUN_PIXELS;
    if (at->pixel < OUT_PIXELS)
        return;
    at->pixel = 0;
    at->n++;
}

KILN_INLINE void copy_tile(const struct maps *maps, kiln_u32 to, kiln_signal signal,
                           const struct view *v, const struct place *tile, const struct cursor *at)
{
    (void)v;
    kiln_bulk3(to, maps->left, signal, at->pixel, tile->row, at->n);
    kiln_bulk3(to + LEFT_BYTES, maps->right, signal, at->pixel, tile->column, at->n);
}

#else /* WEIGHTS, channels last */

KILN_INLINE struct cursor cursor_at(const struct view *v, const struct place *tile, kiln_u32 number)
{
    struct cursor at;
    at.c = at.tap_w = at.tap_h = at.tap_d = 0;
    cursor_move(v, &at, number * KILN_TILE_K);
    return at;
}

KILN_INLINE void advance(const struct view *v, struct cursor *at)
{
    cursor_move(v, at, at->pixel + KILN_TILE_K);
}

KILN_INLINE void copy_tile(const struct maps *maps, kiln_u32 to, kiln_signal signal,
                           const struct view *v, const struct place *tile, const struct cursor *at)
{
    KILN_UNROLLED
    for (int i = 0; i < KILN_TILE_M / PANEL; i++)
        kiln_bulk2(to + i * PANEL_BYTES, maps->left, signal,
                   tile->group * KILN_K + tile->row + i * PANEL, at->pixel);
    KILN_UNROLLED
    for (int i = 0; i < KILN_TILE_N / PANEL; i++) {
        kiln_u32 column = tile->column + i * PANEL, panel = to + LEFT_BYTES + i * PANEL_BYTES;
#if KILN_FLAT
        kiln_bulk2(panel, maps->right, signal, tile->group * KILN_C + column, at->pixel);
#else
        if (column >= W_ROW) /* this panel is not used, but the barrier expects its bytes */
            column = W_ROW - PANEL;
        kiln_u32 tap = column / KILN_C;
        copy_pixels(panel, maps->right, signal, tile->group * KILN_C + column % KILN_C, at,
                    tap % KILN_FILTER_W * KILN_DILATION_W,
                    tap / KILN_FILTER_W % KILN_FILTER_H * KILN_DILATION_H,
                    tap / (KILN_FILTER_W * KILN_FILTER_H) * KILN_DILATION_D);
#endif
    }
}

#endif

KILN_INLINE void copy_all(const struct maps *maps, kiln_tiles shared, const struct view *v,
                          const struct place *tile, struct turn *turn)
{
    struct cursor at = cursor_at(v, tile, tile->first);
#pragma unroll 1
    for (kiln_u32 i = 0; i < tile->steps; i++) {
        kiln_signal full = full_of(shared, turn->stage);
        kiln_signal_wait(free_of(shared, turn->stage), turn->phase);
        kiln_signal_expect(full, STAGE_BYTES);
        copy_tile(maps, shared + turn->stage * STAGE_BYTES, full, v, tile, &at);
        advance(v, &at);
        turn_on(turn);
    }
}

#if DATA
#define KERNEL conv_implicit_gemm_bulk_backward_data
#elif FORWARD
#define KERNEL conv_implicit_gemm_bulk_forward
#else
#define KERNEL conv_implicit_gemm_bulk_backward_weights
#endif

#define FOUR_MAPS KILN_MAP(left0), KILN_MAP(left1), KILN_MAP(left2), KILN_MAP(left3)
#define ONE_OF(number, a, b, c, d) (number == 0 ? &a : number == 1 ? &b : number == 2 ? &c : &d)
#if RESIDUES > 4
#define LEFT_MAPS FOUR_MAPS, KILN_MAP(left4), KILN_MAP(left5), KILN_MAP(left6), KILN_MAP(left7)
#define LEFT_MAP(residue)                                      \
    (residue < 4 ? ONE_OF(residue, left0, left1, left2, left3) \
                 : ONE_OF(residue - 4, left4, left5, left6, left7))
#elif RESIDUES > 1
#define LEFT_MAPS FOUR_MAPS
#define LEFT_MAP(residue) ONE_OF(residue, left0, left1, left2, left3)
#else
#define LEFT_MAPS KILN_MAP(left0)
#define LEFT_MAP(residue) (&left0)
#endif

KILN_INLINE void clear(kiln_sums sum[BLOCKS_M][BLOCKS_N])
{
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * BLOCKS_N * KILN_SUMS; i++)
        sum[i / (BLOCKS_N * KILN_SUMS)][i / KILN_SUMS % BLOCKS_N][i % KILN_SUMS] = 0;
}

#if TURNS || HOLDS

/*
 * In shared memory, an operand's tile has a row of 128 bytes for each step of the reduction.  A
 * step is a pixel if TURNS, and a channel if HOLDS.  The steps may be multiplied in any order that
 * is the same for both operands.  If TURNS, each eight steps are taken in the order 0, 2, 4, 6, 1,
 * 3, 5, 7.  In this order, neighbouring chunks of the four rows that a warp reads at a time are in
 * different banks.
 */
#define STEP_OF(lane, part) (TURNS ? (lane) % 4 * 2 + (part) : (lane) % 4 + (part)*4)
#define STEPS (KILN_TILE_K / KILN_STEP)
#define STEP_BYTES (KILN_STEP * 128)
#define WARPS (THREADS / KILN_WAVE)

/* Byte offset in a tile of element |at| of a step, as bulk copies have stored it. */
KILN_INLINE kiln_u32 element_at(kiln_u32 step, kiln_u32 at)
{
    return at / PANEL * PANEL_BYTES + step * 128 + (at % PANEL / KILN_CHUNK ^ (step & 7)) * 16 +
           at % KILN_CHUNK * KILN_ELEMENT;
}

struct held { /* the left operand of a tile: one entry for each step of the reduction */
    kiln_u32 left[STEPS][BLOCKS_M][4];
};

KILN_INLINE void load_left(struct held *ret, kiln_tiles shared, kiln_u32 at)
{
    kiln_u32 lane = kiln_item() % KILN_WAVE;
    KILN_UNROLLED
    for (int part = 0; part < 4; part++) {
        kiln_u32 row = block_row(0) + part % 2 * 8 + lane / 4;
        kiln_u32 from = at + element_at(STEP_OF(lane, part / 2), row);
        KILN_UNROLLED
        for (int i = 0; i < STEPS * BLOCKS_M; i++)
            ret->left[i / BLOCKS_M][i % BLOCKS_M][part] = kiln_float_bits(
                kiln_tiles_get4(shared, from + i / BLOCKS_M * STEP_BYTES +
                                            i % BLOCKS_M * (BLOCK_ROWS / PANEL * PANEL_BYTES)));
    }
}

#endif

#if TURNS

/* Transposes the right operand from |at| to |to|.  A row of the result has one column's steps,
 * swizzled for wgmma.  In each pass, a warp moves one chunk (half a step) of 32 columns: the pixels
 * 2 * j of the step, or the pixels 2 * j + 1.  Four passes read before they write. */
#define TURN_PASSES PASSES(KILN_TILE_N * 8)
KILN_INLINE void turn_right(kiln_tiles shared, kiln_u32 at, kiln_u32 to)
{
    kiln_u32 lane = kiln_item() % KILN_WAVE, warp = kiln_item() / KILN_WAVE;
    float v[4][4];
    KILN_UNROLLED
    for (int i = 0; i < (TURN_PASSES + 3) / 4 * 8; i++) {
        int pass = i / 8 * 4 + i % 4;
        kiln_u32 over = WARPS > 8 ? (pass * WARPS % 8 + warp) / 8 : 0;
        kiln_u32 panel = pass * WARPS / 8 + over;
        kiln_u32 step = pass * WARPS % 8 / 2 + warp / 2 - over * 4;
        if (pass >= TURN_PASSES || !HAS_CHUNK(pass, KILN_TILE_N * 8))
            continue;
        if (i % 8 >= 4) {
            kiln_tiles_put_four(shared,
                                to + (panel * PANEL + lane) * 128 +
                                    ((step * 2 + warp % 2) ^ (lane & 7)) * 16,
                                v[i % 4]);
            continue;
        }
        KILN_UNROLLED
        for (int j = 0; j < 4; j++)
            v[i % 4][j] = kiln_tiles_get4(shared, at + element_at(j * 2 + warp % 2, lane) +
                                                      panel * PANEL_BYTES + step * STEP_BYTES);
    }
}

/* Multiplies one tile.  The products of the previous tile still run while the right operand is
 * transposed into the other of two buffers.  They still read the registers of the left operand,
 * which is therefore loaded after they have ended.  The stage is free once the new products have
 * begun, because these need all loads of the left operand. */
KILN_INLINE void multiply_turned(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared, kiln_u32 to,
                                 const struct turn *turn)
{
    kiln_u32 at = turn->stage * STAGE_BYTES;
    struct held held;
    kiln_signal_wait(full_of(shared, turn->stage), turn->phase);
    turn_right(shared, at + LEFT_BYTES, to);
    kiln_copies_publish();
    kiln_wide_wait(0);
    load_left(&held, shared, at);
    RESULT_BARRIER(); /* all warps have written the buffer, and no team still reads the other one */
    kiln_wide_begin();
    KILN_UNROLLED
    for (int i = 0; i < STEPS * BLOCKS_M; i++)
        kiln_multiply_wide_held(
            sum[i % BLOCKS_M], held.left[i / BLOCKS_M][i % BLOCKS_M],
            kiln_wide_plain(shared, to + first_column() * 128 + i / BLOCKS_M * 32, 128));
    kiln_wide_end();
    if (kiln_item() % KILN_WAVE == 0)
        kiln_signal_arrive(free_of(shared, turn->stage));
}

KILN_INLINE void multiply_all(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared,
                              const struct place *tile, struct turn *turn)
{
    clear(sum);
    if (tile->steps == 0)
        return;
#pragma unroll 1
    for (kiln_u32 i = 0; i < tile->steps; i++) {
        multiply_turned(sum, shared, TILES_BYTES + (i & 1) * TURNED_BYTES, turn);
        turn_on(turn);
    }
    kiln_wide_wait(0);
}

#elif HOLDS

/* Loads the left operand after the previous products have ended, because these read its registers.
 * Other teams multiply in the meantime. */
KILN_INLINE void multiply_held(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared, kiln_u32 at)
{
    struct held held;
    load_left(&held, shared, at);
    kiln_wide_begin();
    KILN_UNROLLED
    for (int i = 0; i < STEPS * BLOCKS_M; i++)
        kiln_multiply_wide_held(
            sum[i % BLOCKS_M], held.left[i / BLOCKS_M][i % BLOCKS_M],
            operand_of(shared, at + LEFT_BYTES, 0, first_column(), i / BLOCKS_M));
    kiln_wide_end();
}

KILN_INLINE void multiply_all(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared,
                              const struct place *tile, struct turn *turn)
{
    kiln_u32 previous = 0;
    clear(sum);
    if (tile->steps == 0)
        return;
#pragma unroll 1
    for (kiln_u32 i = 0; i < tile->steps; i++) {
        kiln_signal_wait(full_of(shared, turn->stage), turn->phase);
        kiln_wide_wait(0);
        if (i > 0 && kiln_item() % KILN_WAVE == 0)
            kiln_signal_arrive(free_of(shared, previous));
        multiply_held(sum, shared, turn->stage * STAGE_BYTES);
        previous = turn->stage;
        turn_on(turn);
    }
    kiln_wide_wait(0);
}

#else

KILN_INLINE void multiply_all(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared,
                              const struct place *tile, struct turn *turn)
{
    kiln_u32 previous = 0;
    clear(sum);
    if (tile->steps == 0)
        return; /* no branch may join the products while they run */
#pragma unroll 1
    for (kiln_u32 i = 0; i < tile->steps; i++) {
        kiln_signal_wait(full_of(shared, turn->stage), turn->phase);
        multiply_tile(sum, shared, turn->stage * STAGE_BYTES);
        kiln_wide_wait(1); /* the products of the previous tile have ended */
        if (i > 0 && kiln_item() % KILN_WAVE == 0)
            kiln_signal_arrive(free_of(shared, previous));
        previous = turn->stage;
        turn_on(turn);
    }
    kiln_wide_wait(0);
#if KILN_LASTING
    if (kiln_item() % KILN_WAVE == 0)
        kiln_signal_arrive(free_of(shared, previous));
#endif
}

#endif

KILN_INLINE void begin(kiln_tiles shared)
{
    if (kiln_item() == 0) {
        for (kiln_u32 i = 0; i < KILN_STAGES; i++) {
            kiln_signal_init(full_of(shared, i), 1);
            kiln_signal_init(free_of(shared, i), THREADS / KILN_WAVE);
        }
        kiln_signals_publish();
    }
    kiln_barrier();
}

#if STORES_IN_BULK
#define RESULT_PARAMETER KILN_MAP(result)
#define RESULT_PLACE (&result)
#else
#define RESULT_PARAMETER KILN_GLOBAL RESULT *KILN_RESTRICT result
#define RESULT_PLACE result
#endif

#if KILN_LASTING

/* The maps left and right, and |result| or its map, are, forward: x, w, y; backward data: y, w, x.
 * |groups| work groups share |tiles| tiles. */
KILN_KERNEL_OCCUPYING(THREADS + KILN_WAVE, KILN_BLOCKS)
void KERNEL(LEFT_MAPS, KILN_MAP(right), RESULT_PARAMETER, kiln_u32 n, kiln_u32 slice,
            kiln_u32 tiles, kiln_u32 groups)
{
    KILN_TILES(shared);
    struct place tile;
    struct view v;
    if (kiln_item() == THREADS) {
        kiln_map_prefetch(&left0);
        kiln_map_prefetch(&right);
#if STORES_IN_BULK
        kiln_map_prefetch(&result);
#endif
    }
    begin(shared);
    if (kiln_item() >= THREADS) {
        struct maps maps = { &left0, &right };
        /* Initially all stages count as free, as if a phase had ended. */
        struct turn turn = { 0, 1 };
        if (kiln_item() == THREADS)
            for (kiln_u32 i = kiln_group(); i < tiles; i += groups)
                if (place_of(i, n, slice, &tile, &v))
                    copy_all(&maps, shared, &v, &tile, &turn);
        return;
    }
    struct turn turn = { 0, 0 };
#pragma unroll 1
    for (kiln_u32 i = kiln_group(); i < tiles; i += groups) {
        kiln_sums sum[BLOCKS_M][BLOCKS_N];
        if (!place_of(i, n, slice, &tile, &v))
            continue;
        multiply_all(sum, shared, &tile, &turn);
#if STORES_BOXES
        store_team(RESULT_PLACE, shared, &tile, sum);
#else
        store(result, &v, &tile, sum);
#endif
    }
#if STORES_IN_BULK
    if (kiln_item() % TEAM == 0)
        kiln_bulk_stores_wait();
#endif
}

#else

/* The maps left and right, and |result| or its map, are, forward: x, w, y; backward data: y, w, x;
 * backward weights: y, x, w.  A work group sums |slice| tiles of the reduction. */
KILN_KERNEL_OCCUPYING(THREADS + KILN_WAVE, KILN_BLOCKS)
void KERNEL(LEFT_MAPS, KILN_MAP(right), RESULT_PARAMETER, kiln_u32 n, kiln_u32 slice)
{
    KILN_TILES(shared);
    struct place tile;
    struct view v;
    if (!place_of(kiln_group(), n, slice, &tile, &v))
        return;
    struct maps maps = { LEFT_MAP(tile.residue), &right };
    if (kiln_item() == THREADS) {
        kiln_map_prefetch(maps.left);
        kiln_map_prefetch(maps.right);
    }
    begin(shared);
    if (kiln_item() >= THREADS) {
        /* Initially all stages count as free. */
        struct turn turn = { 0, 1 };
        if (kiln_item() == THREADS)
            copy_all(&maps, shared, &v, &tile, &turn);
        return;
    }

    kiln_sums sum[BLOCKS_M][BLOCKS_N];
    struct turn turn = { 0, 0 };
    multiply_all(sum, shared, &tile, &turn);
#if STORES_BOXES
    RESULT_BARRIER(); /* all warps have read the tiles */
    store_team(RESULT_PLACE, shared, &tile, sum);
#if STORES_IN_BULK
    if (kiln_item() % TEAM == 0)
        kiln_bulk_stores_wait();
#endif
#elif STORES_SUMS
    store(result + (kiln_u64)tile.slice * result_size(n), &v, &tile, sum);
#else
    RESULT_BARRIER(); /* all warps have read the tiles */
    store(result, shared, &v, &tile, sum);
#endif
}

#endif
