/* SPDX-License-Identifier: MIT */
/*
 * ConvGrouped: convolutions with few channels per group on NVIDIA's matrix cores (sm_80 and later),
 * fp16 or bf16, with fp32 sums.  The channels of x and y come last.
 *
 * Groups are bundled until c and k of a bundle are multiples of 16.  A bundle is multiplied like
 * one group, in which the weights between different groups are zero.  A work group computes a slab
 * of bundles for a tile of pixels.  It copies the pixels that contribute to the tile (the patch) to
 * shared memory once.  Neighbouring pixels of the patch are an odd number of 16-byte chunks apart,
 * so that eight of them are in different banks.  engine/solver/conv_grouped.c has a picture.
 *
 *   KILN_DIRECTION KILN_TYPE KILN_C KILN_K KILN_GROUPS KILN_IN KILN_OUT KILN_FILTER KILN_PAD
 *   KILN_STRIDE KILN_DILATION KILN_W_LAST   of the problem
 *   KILN_TAP_STEP      _D _H _W; stride / gcd(stride, dilation)
 *   KILN_BUNDLE        groups in a bundle
 *   KILN_SLAB          bundles of a work group
 *   KILN_ROWS KILN_COLUMNS                 rows and columns of pixels in a tile of the result
 *                                          (backward weights: of y)
 *   KILN_WARPS         warps of a work group
 *   KILN_BLOCKS_M      forward and backward data: blocks of 16 pixels that a warp multiplies at a
 *                      time
 *   KILN_TAPS_EACH     backward weights: taps whose sums a warp keeps
 *   KILN_PARTS         backward weights: warps that share the tile's pixels; each has its own
 *                      sums
 *   KILN_PARTIAL       backward weights: 1 if the fp32 sums of each part of each split are written
 *                      one after another
 */
#include "kiln/conv_view.h"
#include "kiln/matrix_cores.h"
#include "kiln/prelude.h"

#define THREADS (KILN_WARPS * 32)
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))
#define TAPS (KILN_FILTER_D * KILN_FILTER_H * KILN_FILTER_W)
#define C_GROUP (KILN_C / KILN_GROUPS)
#define K_GROUP (KILN_K / KILN_GROUPS)
#define C_BUNDLE (C_GROUP * KILN_BUNDLE)
#define K_BUNDLE (K_GROUP * KILN_BUNDLE)
#define C_SLAB (C_BUNDLE * KILN_SLAB)
#define K_SLAB (K_BUNDLE * KILN_SLAB)
#define SLABS CEIL_DIV(KILN_GROUPS, KILN_BUNDLE *KILN_SLAB)

/* The patch contains pixels of x; in backward data, pixels of y. */
#if DATA
#define FROM(axis) KILN_OUT_##axis
#define FROM_CHANNELS KILN_K
#define FROM_BUNDLE K_BUNDLE
#define FROM_SLAB K_SLAB
#define TO(axis) KILN_IN_##axis
#define TO_CHANNELS KILN_C
#define TO_BUNDLE C_BUNDLE
#define TO_SLAB C_SLAB
#define RESIDUES (KILN_STRIDE_D * KILN_STRIDE_H * KILN_STRIDE_W)
/* Pixels of the largest residue class. */
#define PLACES(axis) CEIL_DIV(KILN_IN_##axis, KILN_STRIDE_##axis)
#define PATCH(axis, pixels)                                                \
    ((pixels) + (CEIL_DIV(KILN_FILTER_##axis, KILN_TAP_STEP_##axis) - 1) * \
                    (KILN_TAP_STEP_##axis * KILN_DILATION_##axis / KILN_STRIDE_##axis))
#else
#define FROM(axis) KILN_IN_##axis
#define FROM_CHANNELS KILN_C
#define FROM_BUNDLE C_BUNDLE
#define FROM_SLAB C_SLAB
#define TO(axis) KILN_OUT_##axis
#define TO_CHANNELS KILN_K
#define TO_BUNDLE K_BUNDLE
#define TO_SLAB K_SLAB
#define RESIDUES 1
#define PLACES(axis) KILN_OUT_##axis
#define PATCH(axis, pixels) \
    (((pixels)-1) * KILN_STRIDE_##axis + (KILN_FILTER_##axis - 1) * KILN_DILATION_##axis + 1)
#endif

#define PATCH_D PATCH(D, 1)
#define PATCH_H PATCH(H, KILN_ROWS)
#define PATCH_W PATCH(W, KILN_COLUMNS)
#define PIXELS (KILN_ROWS * KILN_COLUMNS)
#define BLOCKS CEIL_DIV(PIXELS, 16)
#define FROM_PITCH (FROM_SLAB * 2 + 16)
#define TO_PITCH (TO_SLAB * 2 + 16)
#define PATCH_BYTES (PATCH_D * PATCH_H * PATCH_W * FROM_PITCH)
#define W_PITCH (C_BUNDLE * 2 + 16)

struct tile {
    struct view view;
    kiln_u32 slab, n, d, h, w; /* position of the tile's first pixel */
};

#define ROW_TILES CEIL_DIV(PLACES(H), KILN_ROWS)
#define COLUMN_TILES CEIL_DIV(PLACES(W), KILN_COLUMNS)
#define IMAGE_TILES (PLACES(D) * ROW_TILES * COLUMN_TILES)

KILN_INLINE struct tile tile_of(kiln_u32 slab, kiln_u32 residue, kiln_u32 index)
{
    struct tile t;
    t.view = view_of(residue);
    t.slab = slab;
    t.w = index % COLUMN_TILES * KILN_COLUMNS;
    index /= COLUMN_TILES;
    t.h = index % ROW_TILES * KILN_ROWS;
    index /= ROW_TILES;
    t.d = index % PLACES(D);
    t.n = index / PLACES(D);
    return t;
}

/* Patch pixels before the one that tap 0 reads for the tile's first pixel, along an axis. */
KILN_INLINE int ahead(const struct axis *a)
{
    return a->hop < 0 && a->taps > 0 ? -a->hop * ((int)a->taps - 1) : 0;
}

/* Byte offset in the patch of the pixel that tap 0 reads for the tile's pixel |m|. */
KILN_INLINE kiln_u32 met_first(const struct tile *t, kiln_u32 m)
{
    kiln_u32 pixel = m < PIXELS ? m : PIXELS - 1;
    int h = (int)(pixel / KILN_COLUMNS) * t->view.h.scale + ahead(&t->view.h);
    int w = (int)(pixel % KILN_COLUMNS) * t->view.w.scale + ahead(&t->view.w);
    return (kiln_u32)((ahead(&t->view.d) * PATCH_H + h) * PATCH_W + w) * FROM_PITCH;
}

/* Byte distance in the patch from the pixel that tap 0 reads. */
KILN_INLINE kiln_u32 tap_offset(const struct tile *t, int d, int h, int w)
{
    return (kiln_u32)(((d * t->view.d.hop * PATCH_H + h * t->view.h.hop) * PATCH_W +
                       w * t->view.w.hop) *
                      FROM_PITCH);
}

#define FROM_CHUNKS (FROM_SLAB / 8)

KILN_INLINE void copy_patch(kiln_tiles tiles, KILN_GLOBAL const kiln_value *from,
                            const struct tile *t)
{
    int first_d = (int)t->d * t->view.d.scale + t->view.d.origin - ahead(&t->view.d);
    int first_h = (int)t->h * t->view.h.scale + t->view.h.origin - ahead(&t->view.h);
    int first_w = (int)t->w * t->view.w.scale + t->view.w.origin - ahead(&t->view.w);
    for (kiln_u32 i = kiln_item(); i < PATCH_D * PATCH_H * PATCH_W * FROM_CHUNKS; i += THREADS) {
        kiln_u32 chunk = i % FROM_CHUNKS, pixel = i / FROM_CHUNKS;
        kiln_u32 channel = t->slab * FROM_SLAB + chunk * 8;
        int w = first_w + (int)(pixel % PATCH_W);
        int h = first_h + (int)(pixel / PATCH_W % PATCH_H);
        int d = first_d + (int)(pixel / (PATCH_W * PATCH_H));
        int is_there = channel < FROM_CHANNELS && inside(d, FROM(D)) && inside(h, FROM(H)) &&
                       inside(w, FROM(W));
        kiln_u32 at =
            ((t->n * FROM(D) + (kiln_u32)d) * FROM(H) + (kiln_u32)h) * FROM(W) + (kiln_u32)w;
        kiln_copy16(tiles, pixel * FROM_PITCH + chunk * 16,
                    from + (is_there ? at * FROM_CHANNELS + channel : 0), is_there);
    }
}

#define TO_CHUNKS (TO_SLAB / 8)

/* Index of the tile's pixel |m| in the result (backward weights: in y). */
KILN_INLINE kiln_u32 place_of(const struct tile *t, kiln_u32 m, kiln_u32 channel)
{
    kiln_u32 d = t->view.d.first + t->d * t->view.d.step;
    kiln_u32 h = t->view.h.first + (t->h + m / KILN_COLUMNS) * t->view.h.step;
    kiln_u32 w = t->view.w.first + (t->w + m % KILN_COLUMNS) * t->view.w.step;
    return (((t->n * TO(D) + d) * TO(H) + h) * TO(W) + w) * TO_CHANNELS + channel;
}

KILN_INLINE int is_pixel(const struct tile *t, kiln_u32 m)
{
    return m < PIXELS && t->h + m / KILN_COLUMNS < t->view.h.pixels &&
           t->w + m % KILN_COLUMNS < t->view.w.pixels;
}

#if !WEIGHTS

#define W_BYTES (TAPS * K_SLAB * W_PITCH)

KILN_INLINE void put_weights(kiln_tiles tiles, kiln_u32 to, KILN_GLOBAL const kiln_value *w,
                             kiln_u32 k, kiln_u32 tap, kiln_u32 c)
{
#if KILN_W_LAST && C_GROUP % 8 == 0
    int is_there = k < KILN_K && c / C_GROUP == k / K_GROUP % KILN_BUNDLE;
    kiln_copy16(tiles, to, w + (is_there ? (k * TAPS + tap) * C_GROUP + c % C_GROUP : 0), is_there);
#else
    for (kiln_u32 i = 0; i < 8; i += 2) {
        kiln_u32 both = 0;
#if KILN_W_LAST && C_GROUP % 2 == 0
        if (k < KILN_K && (c + i) / C_GROUP == k / K_GROUP % KILN_BUNDLE)
            both =
                *(KILN_GLOBAL const kiln_u32 *)(w + (k * TAPS + tap) * C_GROUP + (c + i) % C_GROUP);
#else
        for (kiln_u32 j = 0; j < 2; j++) {
            kiln_u32 of_group = (c + i + j) % C_GROUP;
            kiln_u32 at = KILN_W_LAST ? (k * TAPS + tap) * C_GROUP + of_group
                                      : (k * C_GROUP + of_group) * TAPS + tap;
            if (k < KILN_K && (c + i + j) / C_GROUP == k / K_GROUP % KILN_BUNDLE)
                both |= (kiln_u32)((KILN_GLOBAL const unsigned short *)w)[at] << (16 * j);
        }
#endif
        kiln_tiles_put4(tiles, to + i * 2, both);
    }
#endif
}

KILN_INLINE void expand_weights(kiln_tiles tiles, KILN_GLOBAL const kiln_value *w, kiln_u32 slab)
{
    for (kiln_u32 i = kiln_item(); i < TAPS * K_SLAB * (C_BUNDLE / 8); i += THREADS) {
        kiln_u32 c = i % (C_BUNDLE / 8) * 8, tap = i / (C_BUNDLE / 8) % TAPS;
        kiln_u32 k = i / (C_BUNDLE / 8 * TAPS);
        put_weights(tiles, PATCH_BYTES + (tap * K_SLAB + k) * W_PITCH + c * 2, w, slab * K_SLAB + k,
                    tap, c);
    }
}

#define UNITS_N (TO_SLAB / 16)
#define UNITS (UNITS_N * CEIL_DIV(BLOCKS, KILN_BLOCKS_M))
#define STEPS (FROM_BUNDLE / 16)
#if TAPS * STEPS <= 50
#define UNROLLED_TAPS KILN_UNROLLED
#else
#define UNROLLED_TAPS
#endif

/* Position of the weights in shared memory, for 16 channels of the result. */
KILN_INLINE kiln_u32 weights_at(kiln_u32 lane, kiln_u32 unit_n)
{
    kiln_u32 bundle = unit_n / (TO_BUNDLE / 16), n = unit_n % (TO_BUNDLE / 16) * 16;
    kiln_u32 low = lane % 8, middle = lane / 8 % 2 * 8, high = lane / 16 * 8;
#if DATA
    kiln_u32 k = low + middle, c = n + high;
#else
    kiln_u32 k = n + low + high, c = middle;
#endif
    return PATCH_BYTES + (bundle * K_BUNDLE + k) * W_PITCH + c * 2;
}

#if DATA
#define STEP_BYTES (16 * W_PITCH)
#define load_weights kiln_load8x8_turned
#else
#define STEP_BYTES 32
#define load_weights kiln_load8x8
#endif

/* Computes 16 channels of 16 * KILN_BLOCKS_M pixels, from pixel 16 * |first| of the tile on. */
KILN_INLINE void multiply_unit(kiln_tiles tiles, const struct tile *t, kiln_u32 unit_n,
                               kiln_u32 first, float sums[KILN_BLOCKS_M][2][4])
{
    kiln_u32 lane = kiln_item() % 32, weights = weights_at(lane, unit_n);
    kiln_u32 pixels[KILN_BLOCKS_M];
    KILN_UNROLL
    for (int m = 0; m < KILN_BLOCKS_M; m++)
        pixels[m] = met_first(t, (first + m) * 16 + lane % 16) + lane / 16 * 16 +
                    unit_n / (TO_BUNDLE / 16) * FROM_BUNDLE * 2;
    for (int d = 0; d < (int)t->view.d.taps; d++)
        UNROLLED_TAPS
    for (int h = 0; h < (int)t->view.h.taps; h++)
        UNROLLED_TAPS
    for (int w = 0; w < (int)t->view.w.taps; w++) {
        kiln_u32 tap_d = t->view.d.tap + (kiln_u32)d * t->view.d.tap_step;
        kiln_u32 tap_h = t->view.h.tap + (kiln_u32)h * t->view.h.tap_step;
        kiln_u32 tap_w = t->view.w.tap + (kiln_u32)w * t->view.w.tap_step;
        kiln_u32 tap = (tap_d * KILN_FILTER_H + tap_h) * KILN_FILTER_W + tap_w;
        KILN_UNROLLED
        for (int step = 0; step < STEPS; step++) {
            kiln_u32 right[4];
            load_weights(right, tiles, weights + tap * (K_SLAB * W_PITCH) + step * STEP_BYTES);
            KILN_UNROLLED
            for (int m = 0; m < KILN_BLOCKS_M; m++) {
                kiln_u32 left[4];
                kiln_load8x8(left, tiles, pixels[m] + tap_offset(t, d, h, w) + step * 32);
                kiln_multiply16x8x16(sums[m][0], left, right, tiles);
                kiln_multiply16x8x16(sums[m][1], left, right + 2, tiles);
            }
        }
    }
}

#if DATA
KILN_KERNEL(THREADS)
void conv_grouped_backward_data(KILN_GLOBAL const kiln_value *KILN_RESTRICT from,
                                KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                                KILN_GLOBAL kiln_value *KILN_RESTRICT to, kiln_u32 n)
#else
KILN_KERNEL(THREADS)
void conv_grouped_forward(KILN_GLOBAL const kiln_value *KILN_RESTRICT from,
                          KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                          KILN_GLOBAL kiln_value *KILN_RESTRICT to, kiln_u32 n)
#endif
{
    KILN_TILES(tiles);
    kiln_u32 group = kiln_group() / SLABS, warp = kiln_item() / 32, lane = kiln_item() % 32;
    struct tile t = tile_of(kiln_group() % SLABS, RESIDUES == 1 ? 0 : group / (n * IMAGE_TILES),
                            RESIDUES == 1 ? group : group % (n * IMAGE_TILES));
    if (t.d >= t.view.d.pixels || t.h >= t.view.h.pixels || t.w >= t.view.w.pixels)
        return;
    copy_patch(tiles, from, &t);
    expand_weights(tiles, w, t.slab);
    kiln_copies_end();
    kiln_copies_wait(0);
    kiln_barrier();

    for (kiln_u32 pass = 0; pass < CEIL_DIV(UNITS, KILN_WARPS); pass++) {
        float sums[KILN_BLOCKS_M][2][4] = { { { 0 } } };
        kiln_u32 unit = pass * KILN_WARPS + warp;
#if UNITS % KILN_WARPS
#if defined(KILN_OPENCL)
        unit = unit < UNITS ? unit : UNITS - 1; /* all warps must reach the emulation's barriers */
#else
        if (unit >= UNITS)
            break;
#endif
#endif
        kiln_u32 unit_n = unit % UNITS_N, first = unit / UNITS_N * KILN_BLOCKS_M;
        multiply_unit(tiles, &t, unit_n, first, sums);
        KILN_UNROLL
        for (int m = 0; m < KILN_BLOCKS_M; m++) {
            if (first + m >= BLOCKS)
                break;
            kiln_u32 at = PATCH_BYTES + W_BYTES + ((first + m) * 16 + lane / 4) * TO_PITCH +
                          unit_n * 32 + lane % 4 * 4;
            KILN_UNROLL
            for (int i = 0; i < 4; i++)
                kiln_tiles_put4(
                    tiles, at + i % 2 * 16 + i / 2 * (8 * TO_PITCH),
                    kiln_pack(sums[m][i % 2][i / 2 * 2], sums[m][i % 2][i / 2 * 2 + 1]));
        }
    }
    kiln_barrier();
    for (kiln_u32 i = kiln_item(); i < PIXELS * TO_CHUNKS; i += THREADS) {
        kiln_u32 m = i / TO_CHUNKS, chunk = i % TO_CHUNKS;
        kiln_u32 channel = t.slab * TO_SLAB + chunk * 8;
        if (is_pixel(&t, m) && channel < TO_CHANNELS)
            kiln_tiles_store16(to + place_of(&t, m, channel), tiles,
                               PATCH_BYTES + W_BYTES + m * TO_PITCH + chunk * 16);
    }
}

#else

#define UNITS_K (K_BUNDLE / 16)
#define UNITS_C (C_BUNDLE / 16)
#define TAP_PARTS CEIL_DIV(TAPS, KILN_TAPS_EACH)

/* Pixels outside the image become zeros. */
KILN_INLINE void copy_result(kiln_tiles tiles, KILN_GLOBAL const kiln_value *y,
                             const struct tile *t)
{
    for (kiln_u32 i = kiln_item(); i < BLOCKS * 16 * TO_CHUNKS; i += THREADS) {
        kiln_u32 m = i / TO_CHUNKS, chunk = i % TO_CHUNKS;
        kiln_u32 channel = t->slab * TO_SLAB + chunk * 8;
        int is_there = is_pixel(t, m) && channel < TO_CHANNELS;
        kiln_copy16(tiles, PATCH_BYTES + m * TO_PITCH + chunk * 16,
                    y + (is_there ? place_of(t, m, channel) : 0), is_there);
    }
}

/* A warp's sums: 16 channels of y times 16 of x, for KILN_TAPS_EACH taps. */
struct unit {
    kiln_u32 bundle, k, c, tap, part;
};

KILN_INLINE struct unit unit_of_warp(kiln_u32 warp)
{
    struct unit u;
    u.c = warp % UNITS_C * 16;
    warp /= UNITS_C;
    u.k = warp % UNITS_K * 16;
    warp /= UNITS_K;
    u.bundle = warp % KILN_SLAB;
    warp /= KILN_SLAB;
    u.tap = warp % TAP_PARTS * KILN_TAPS_EACH;
    u.part = warp / TAP_PARTS;
    return u;
}

KILN_INLINE void add_tile(kiln_tiles tiles, const struct tile *t, const struct unit *u,
                          float sums[KILN_TAPS_EACH][2][4])
{
    kiln_u32 lane = kiln_item() % 32;
    kiln_u32 low = lane % 8, middle = lane / 8 % 2, high = lane / 16;
    kiln_u32 y =
        PATCH_BYTES + (low + high * 8) * TO_PITCH + (u->bundle * K_BUNDLE + u->k) * 2 + middle * 16;
    for (kiln_u32 i = 0; i < CEIL_DIV(BLOCKS, KILN_PARTS); i++) {
        kiln_u32 block = i * KILN_PARTS + u->part, left[4];
#if BLOCKS % KILN_PARTS && !defined(KILN_OPENCL)
        if (block >= BLOCKS)
            break;
#endif
        int is_block = block < BLOCKS;
        block = is_block ? block : 0;
        kiln_u32 x = met_first(t, block * 16 + low + middle * 8) +
                     (u->bundle * C_BUNDLE + u->c) * 2 + high * 16;
        kiln_load8x8_turned(left, tiles, y + block * 16 * TO_PITCH);
        for (int j = 0; j < 4; j++)
            left[j] = is_block ? left[j] : 0;
        KILN_UNROLLED
        for (int j = 0; j < KILN_TAPS_EACH; j++) {
            kiln_u32 tap = TAP_PARTS == 1 ? (kiln_u32)j : u->tap + j, right[4];
            tap = tap < TAPS ? tap : TAPS - 1;
            kiln_load8x8_turned(right, tiles,
                                x + tap_offset(t, (int)(tap / (KILN_FILTER_W * KILN_FILTER_H)),
                                               (int)(tap / KILN_FILTER_W % KILN_FILTER_H),
                                               (int)(tap % KILN_FILTER_W)));
            kiln_multiply16x8x16(sums[j][0], left, right, tiles);
            kiln_multiply16x8x16(sums[j][1], left, right + 2, tiles);
        }
    }
}

#if KILN_PARTIAL
#define OUTPUT float
#else
#define OUTPUT kiln_value
#endif

KILN_KERNEL(THREADS)
void conv_grouped_backward_weights(KILN_GLOBAL const kiln_value *KILN_RESTRICT x,
                                   KILN_GLOBAL const kiln_value *KILN_RESTRICT y,
                                   KILN_GLOBAL OUTPUT *KILN_RESTRICT w, kiln_u32 n, kiln_u32 splits)
{
    KILN_TILES(tiles);
    kiln_u32 slab = kiln_group() % SLABS, split = kiln_group() / SLABS, lane = kiln_item() % 32;
    struct unit u = unit_of_warp(kiln_item() / 32);
    float sums[KILN_TAPS_EACH][2][4] = { { { 0 } } };
    for (kiln_u32 i = split; i < n * IMAGE_TILES; i += splits) {
        struct tile t = tile_of(slab, 0, i);
        kiln_barrier(); /* all warps have read the previous tile */
        copy_patch(tiles, x, &t);
        copy_result(tiles, y, &t);
        kiln_copies_end();
        kiln_copies_wait(0);
        kiln_barrier();
        add_tile(tiles, &t, &u, sums);
    }
#if KILN_PARTIAL
    w += (split * KILN_PARTS + u.part) * (kiln_u64)(KILN_K * TAPS * C_GROUP);
#endif
    KILN_UNROLL
    for (int at = 0; at < KILN_TAPS_EACH * 8; at++) {
        kiln_u32 i = at % 4, tap = u.tap + at / 8;
        kiln_u32 of_k = u.k + kiln_sum_row(lane, i);
        kiln_u32 of_c = u.c + at / 4 % 2 * 8 + kiln_sum_column(lane, i);
        kiln_u32 k = slab * K_SLAB + u.bundle * K_BUNDLE + of_k, c = of_c % C_GROUP;
        if (tap >= TAPS || k >= KILN_K || of_k / K_GROUP != of_c / C_GROUP)
            continue;
        kiln_u32 to = KILN_W_LAST ? (k * TAPS + tap) * C_GROUP + c : (k * C_GROUP + c) * TAPS + tap;
#if KILN_PARTIAL
        w[to] = sums[at / 8][at / 4 % 2][i];
#else
        kiln_store(w, to, sums[at / 8][at / 4 % 2][i]);
#endif
    }
}

#endif
