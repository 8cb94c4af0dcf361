/* SPDX-License-Identifier: MIT */
/*
 * ConvWinograd: the transforms of F(2x2, 3x3) and F(4x4, 3x3).  Between them,
 * conv_implicit_gemm_vector.cl computes one matrix product for each element of a transformed tile.
 * engine/solver/conv_winograd.c explains the algorithm.
 *
 * In KILN_DIRECTION 0, FROM is x and TO is y.  In direction 1, FROM is y, TO is x, and the
 * filter is rotated by 180 degrees.  A tile is TILE x TILE pixels of TO.  It is computed from
 * EDGE x EDGE pixels of FROM, with EDGE = TILE + 2:
 *     to = A' [ sum over channels of (G filter G') . (B' from B) ] A
 * The elements of a transformed tile are numbered by |at|, 0 to EDGE^2 - 1.  The workspace, fp32:
 *     filter   [at][group][channel of FROM][channel of TO]
 *     from     [n][at][channel][tile], or [n][tile][at][channel] where FROM's channels come last
 *     to       the same layouts as from, with TO's channels and layout
 *
 * In direction 2, backward weights, FROM is x, and y's tiles of TILE x TILE are also transformed:
 *     w = G' [ sum over tiles of (A y A') . (B' from B) ] G
 *     gradient [n][at][channel][tile], or [n][tile][at][channel] where y's channels come last
 *     product  [at][group][channel of y][channel of x]
 *
 * A transform evaluates polynomials at points.  The points of TILE 2 are 0, 1, -1 and infinity.
 * Those of TILE 4 are 0, +-sqrt(1/2), +-sqrt(2) and infinity.  They cost the same as the usual 0,
 * +-1, +-2, and halve the rounding error.  From the points, the matrices follow as in Lavin and
 * Gray (engine/solver/conv_winograd.c).
 *
 * A program has one step.  KILN_STEP is 0 for filter, 1 for from, 2 for to; in direction 2, it is 1
 * for from, 3 for gradient, 4 for weights.  Every size but the batch is defined by -D:
 *   KILN_C KILN_K KILN_GROUPS
 *   KILN_TILE         2 or 4
 *   KILN_W_LAST       (step 0) 1 where w's channels come last
 * and only for steps 1, 2 and 3:
 *   KILN_IN KILN_OUT KILN_PAD, for each of _H _W
 *   KILN_X_LAST KILN_Y_LAST   1 where that tensor's channels come last
 *   KILN_TILES        tile slots of an image, at least as many as it has tiles
 *   KILN_GROUP_SIZE   items in a work group
 * Memory is 16-byte aligned.  All tensors, also the transformed ones, have fewer than 2^31
 * elements.
 */
#include "kiln/prelude.h"

#define EDGE (KILN_TILE + 2)
#define POINTS (EDGE * EDGE)
#define GROUP_C (KILN_C / KILN_GROUPS)
#define GROUP_K (KILN_K / KILN_GROUPS)
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))

/* Powers of the points for TILE 4. */
#define NEAR 0.70710678118654752f
#define NEAR_CUBED 0.35355339059327376f
#define FAR 1.4142135623730950f
#define FAR_CUBED 2.8284271247461901f

#if KILN_STEP == 0

/* Multiplies G by three weights. */
KILN_INLINE void transform(const float *w, int step, float *ret_points)
{
    float a = w[0], b = w[step], c = w[2 * step];
#if KILN_TILE == 2
    float even = 0.5f * (a + c), odd = 0.5f * b;
    ret_points[0] = a;
    ret_points[1] = even + odd;
    ret_points[2] = even - odd;
    ret_points[3] = c;
#else
    float near_even = -(2.0f / 3.0f) * a - (1.0f / 3.0f) * c, near_odd = -(2.0f / 3.0f) * NEAR * b;
    float far_even = (1.0f / 6.0f) * a + (1.0f / 3.0f) * c, far_odd = (1.0f / 6.0f) * FAR * b;
    ret_points[0] = a;
    ret_points[1] = near_even + near_odd;
    ret_points[2] = near_even - near_odd;
    ret_points[3] = far_even + far_odd;
    ret_points[4] = far_even - far_odd;
    ret_points[5] = c;
#endif
}

/* A work group transforms 32 channels of TO times 8 channels of FROM. */
#define BLOCK_K (KILN_DIRECTION == 0 ? 32 : 8)
#define BLOCK_C (KILN_DIRECTION == 0 ? 8 : 32)
#define K_BLOCKS CEIL_DIV(GROUP_K, BLOCK_K)
#define C_BLOCKS CEIL_DIV(GROUP_C, BLOCK_C)
#define TAPS 9
#define PITCH (BLOCK_C * TAPS + 1)

KILN_KERNEL(256)
void conv_winograd_filter(KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                          KILN_GLOBAL float *KILN_RESTRICT points)
{
    KILN_SHARED float block[BLOCK_K * PITCH];
    kiln_u32 id = kiln_group();
    kiln_u32 c0 = id % C_BLOCKS * BLOCK_C, k0 = id / C_BLOCKS % K_BLOCKS * BLOCK_K;
    kiln_u32 group = id / (C_BLOCKS * K_BLOCKS);

    for (kiln_u32 i = kiln_item(); i < BLOCK_K * BLOCK_C * TAPS; i += 256) {
        kiln_u32 k = i / (BLOCK_C * TAPS), rest = i % (BLOCK_C * TAPS);
        kiln_u32 c = KILN_W_LAST ? rest % BLOCK_C : rest / TAPS;
        kiln_u32 tap = KILN_W_LAST ? rest / BLOCK_C : rest % TAPS;
        if (k0 + k < GROUP_K && c0 + c < GROUP_C)
            block[k * PITCH + c * TAPS + (KILN_DIRECTION == 0 ? tap : 8 - tap)] =
                kiln_load(w, (group * GROUP_K + k0 + k) * (GROUP_C * TAPS) +
                                 (KILN_W_LAST ? tap * GROUP_C + c0 + c : (c0 + c) * TAPS + tap));
    }
    kiln_barrier();

    kiln_u32 to = kiln_item() % 32, from = kiln_item() / 32;
    kiln_u32 k = KILN_DIRECTION == 0 ? to : from, c = KILN_DIRECTION == 0 ? from : to;
    if (k0 + k >= GROUP_K || c0 + c >= GROUP_C)
        return;
    float tap[TAPS], half_way[3 * EDGE], all[EDGE];
    KILN_UNROLL
    for (int i = 0; i < TAPS; i++)
        tap[i] = block[k * PITCH + c * TAPS + i];
    KILN_UNROLL
    for (int i = 0; i < 3; i++)
        transform(tap + i, 3, half_way + i * EDGE);
    kiln_u32 at = KILN_DIRECTION == 0 ? (group * GROUP_C + c0 + c) * GROUP_K + k0 + k
                                      : (group * GROUP_K + k0 + k) * GROUP_C + c0 + c;
    KILN_UNROLL
    for (int i = 0; i < EDGE; i++) {
        transform(half_way + i, EDGE, all);
        KILN_UNROLL
        for (int j = 0; j < EDGE; j++)
            points[at + (kiln_u32)(i * EDGE + j) * (KILN_GROUPS * GROUP_C * GROUP_K)] = all[j];
    }
}

#elif KILN_STEP == 4

/* Multiplies G' by EDGE sums. */
KILN_INLINE void transform(const float *v, int step, float *ret_taps)
{
    float a = v[0], b = v[step], c = v[2 * step], d = v[3 * step];
#if KILN_TILE == 2
    ret_taps[0] = a + 0.5f * (b + c);
    ret_taps[1] = 0.5f * (b - c);
    ret_taps[2] = 0.5f * (b + c) + d;
#else
    float e = v[4 * step], f = v[5 * step];
    float near_even = b + c, near_odd = b - c, far_even = d + e, far_odd = d - e;
    ret_taps[0] = a - (2.0f / 3.0f) * near_even + (1.0f / 6.0f) * far_even;
    ret_taps[1] = (1.0f / 6.0f) * FAR * far_odd - (2.0f / 3.0f) * NEAR * near_odd;
    ret_taps[2] = (1.0f / 3.0f) * (far_even - near_even) + f;
#endif
}

#define TAPS 9
/* Weights in a group of x's channels, for one point or one tap. */
#define WEIGHTS (KILN_K * GROUP_C)
#define ITEMS 64

/* The channel pairs of a work group are contiguous in w unless the channels of w come last. */
KILN_KERNEL(ITEMS)
void conv_winograd_weights(KILN_GLOBAL const float *KILN_RESTRICT points,
                           KILN_GLOBAL kiln_value *KILN_RESTRICT w)
{
    kiln_u32 first = kiln_group() * ITEMS, at = first + kiln_item();
    float sums[EDGE * EDGE], half_way[EDGE * 3], taps[TAPS];
    KILN_UNROLL
    for (int i = 0; i < POINTS; i++)
        sums[i] = at < WEIGHTS ? points[(kiln_u32)i * WEIGHTS + at] : 0.0f;
    KILN_UNROLL
    for (int i = 0; i < EDGE; i++)
        transform(sums + i * EDGE, 1, half_way + i * 3);
    KILN_UNROLL
    for (int i = 0; i < 3; i++) {
        float column[3];
        transform(half_way + i, 3, column);
        KILN_UNROLL
        for (int j = 0; j < 3; j++)
            taps[j * 3 + i] = column[j];
    }
#if KILN_W_LAST
    KILN_UNROLL
    for (int tap = 0; tap < TAPS; tap++)
        if (at < WEIGHTS)
            kiln_store(w, (at / GROUP_C * TAPS + (kiln_u32)tap) * GROUP_C + at % GROUP_C,
                       taps[tap]);
#else
    KILN_SHARED float staged[ITEMS * TAPS];
    KILN_UNROLL
    for (int tap = 0; tap < TAPS; tap++)
        staged[kiln_item() * TAPS + (kiln_u32)tap] = taps[tap];
    kiln_barrier();
    for (kiln_u32 i = kiln_item(); i < ITEMS * TAPS; i += ITEMS)
        if (first * TAPS + i < WEIGHTS * TAPS)
            kiln_store(w, first * TAPS + i, staged[i]);
#endif
}

#else

#if KILN_STEP == 3
#define FROM_H KILN_OUT_H
#define FROM_W KILN_OUT_W
#define FROM_LAST KILN_Y_LAST
#define FROM_CHANNELS KILN_K
#define LEFT 0
#define ABOVE 0
#elif KILN_DIRECTION != 1
#define FROM_H KILN_IN_H
#define FROM_W KILN_IN_W
#define FROM_LAST KILN_X_LAST
#define FROM_CHANNELS KILN_C
#define LEFT KILN_PAD_W /* distance from the first tile's start to FROM's first pixel */
#define ABOVE KILN_PAD_H
#else
#define FROM_H KILN_OUT_H
#define FROM_W KILN_OUT_W
#define FROM_LAST KILN_Y_LAST
#define FROM_CHANNELS KILN_K
#define LEFT (2 - KILN_PAD_W)
#define ABOVE (2 - KILN_PAD_H)
#endif

/* TO is the image that is cut into tiles. */
#if KILN_DIRECTION != 1
#define TO_H KILN_OUT_H
#define TO_W KILN_OUT_W
#define TO_LAST KILN_Y_LAST
#define TO_CHANNELS KILN_K
#else
#define TO_H KILN_IN_H
#define TO_W KILN_IN_W
#define TO_LAST KILN_X_LAST
#define TO_CHANNELS KILN_C
#endif

#define COLUMN_TILES CEIL_DIV(TO_W, KILN_TILE)

struct spot {
    kiln_u32 n, channel, tile;
};

/* Items are numbered in the order of their results in the workspace. */
KILN_DEVICE struct spot spot_of_item(kiln_u32 channels, int channels_last)
{
    kiln_u32 item = kiln_group() * KILN_GROUP_SIZE + kiln_item();
    struct spot s;
    if (channels_last) {
        s.channel = item % channels;
        item /= channels;
    }
    s.tile = item % KILN_TILES;
    item /= KILN_TILES;
    if (!channels_last) {
        s.channel = item % channels;
        item /= channels;
    }
    s.n = item;
    return s;
}

/* Index of element 0 of a transformed tile; the next element is POINT_STRIDE further. */
#define POINT_STRIDE(channels, last) ((last) ? (channels) : (channels)*KILN_TILES)
#define POINTS_AT(s, channels, last)                                                \
    ((last) ? ((s).n * KILN_TILES + (s).tile) * (POINTS * (channels)) + (s).channel \
            : ((s).n * (POINTS * (channels)) + (s).channel) * KILN_TILES + (s).tile)

#if KILN_STEP != 2

#if KILN_STEP == 3

#define SIDE KILN_TILE

/* Multiplies A by TILE pixels. */
KILN_INLINE void transform(const float *v, int step, float *ret_points)
{
    float a = v[0], b = v[step];
    ret_points[0] = a;
#if KILN_TILE == 2
    ret_points[1] = a + b;
    ret_points[2] = a - b;
    ret_points[3] = b;
#else
    float c = v[2 * step], d = v[3 * step];
    float near_even = a + 0.5f * c, near_odd = NEAR * b + NEAR_CUBED * d;
    float far_even = a + 2.0f * c, far_odd = FAR * b + FAR_CUBED * d;
    ret_points[1] = near_even + near_odd;
    ret_points[2] = near_even - near_odd;
    ret_points[3] = far_even + far_odd;
    ret_points[4] = far_even - far_odd;
    ret_points[5] = d;
#endif
}

#else

#define SIDE EDGE

/* Multiplies B' by EDGE pixels. */
KILN_INLINE void transform(const float *v, int step, float *ret_points)
{
    float a = v[0], b = v[step], c = v[2 * step], d = v[3 * step];
#if KILN_TILE == 2
    ret_points[0] = a - c;
    ret_points[1] = b + c;
    ret_points[2] = c - b;
    ret_points[3] = d - b;
#else
    float e = v[4 * step], f = v[5 * step];
    float near_even = e - 2.0f * c, near_odd = d - 2.0f * b;
    float far_even = e - 0.5f * c, far_odd = d - 0.5f * b;
    ret_points[0] = a - 2.5f * c + e;
    ret_points[1] = near_even + NEAR * near_odd;
    ret_points[2] = near_even - NEAR * near_odd;
    ret_points[3] = far_even + FAR * far_odd;
    ret_points[4] = far_even - FAR * far_odd;
    ret_points[5] = b - 2.5f * d + f;
#endif
}

#endif

/* Distances between neighbours in FROM, in elements. */
#define W_STEP (FROM_LAST ? FROM_CHANNELS : 1)
#define H_STEP (W_STEP * FROM_W)
#define C_STEP (FROM_LAST ? 1 : FROM_H * FROM_W)
#define N_STEP (FROM_CHANNELS * FROM_H * FROM_W)

/* Whether the four pixels in the middle of a row are aligned, and either all inside the image or
 * all outside. */
#define FOUR (KILN_TILE == 4 && !FROM_LAST && FROM_W % 4 == 0 && LEFT == (SIDE == EDGE))

KILN_INLINE float load_pixel(KILN_GLOBAL const kiln_value *from, kiln_u32 row, int is_in, int w)
{
    return is_in && w >= 0 && w < FROM_W ? kiln_load(from, row + (kiln_u32)(w * W_STEP)) : 0.0f;
}

/* Loads SIDE pixels of row h, from column w on. */
KILN_INLINE void load_row(KILN_GLOBAL const kiln_value *from, kiln_u32 plane, int h, int w,
                          float *row)
{
    int is_in = h >= 0 && h < FROM_H;
    kiln_u32 at = plane + (kiln_u32)(h * H_STEP);
#if FOUR
    kiln_float4 four = kiln_make4(0, 0, 0, 0);
    if (is_in && w + LEFT < FROM_W)
        four = kiln_load4(from, at + (kiln_u32)(w + LEFT));
    row[LEFT] = four.x;
    row[LEFT + 1] = four.y;
    row[LEFT + 2] = four.z;
    row[LEFT + 3] = four.w;
#if SIDE == EDGE
    row[0] = load_pixel(from, at, is_in, w);
    row[5] = load_pixel(from, at, is_in, w + 5);
#endif
#else
    KILN_UNROLL
    for (int i = 0; i < SIDE; i++)
        row[i] = load_pixel(from, at, is_in, w + i);
#endif
}

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_winograd_from(KILN_GLOBAL const kiln_value *KILN_RESTRICT from,
                        KILN_GLOBAL float *KILN_RESTRICT points, kiln_u32 n)
{
    struct spot s = spot_of_item(FROM_CHANNELS, FROM_LAST);
    int h = (int)(s.tile / COLUMN_TILES * KILN_TILE) - ABOVE;
    int w = (int)(s.tile % COLUMN_TILES * KILN_TILE) - LEFT;
    float row[SIDE], half_way[SIDE * EDGE], all[EDGE];
    if (s.n >= n)
        return;
    KILN_UNROLL
    for (int i = 0; i < SIDE; i++) {
        load_row(from, s.n * N_STEP + s.channel * C_STEP, h + i, w, row);
        transform(row, 1, half_way + i * EDGE);
    }
    kiln_u32 at = POINTS_AT(s, FROM_CHANNELS, FROM_LAST);
    KILN_UNROLL
    for (int j = 0; j < EDGE; j++) {
        transform(half_way + j, EDGE, all);
        KILN_UNROLL
        for (int i = 0; i < EDGE; i++)
            points[at + (kiln_u32)(i * EDGE + j) * POINT_STRIDE(FROM_CHANNELS, FROM_LAST)] = all[i];
    }
}

#else

/* Multiplies A' by EDGE sums. */
KILN_INLINE void transform(const float *v, int step, float *ret_pixels)
{
    float a = v[0], b = v[step], c = v[2 * step], d = v[3 * step];
#if KILN_TILE == 2
    ret_pixels[0] = a + b + c;
    ret_pixels[1] = b - c + d;
#else
    float e = v[4 * step], f = v[5 * step];
    float near_even = b + c, near_odd = b - c, far_even = d + e, far_odd = d - e;
    ret_pixels[0] = a + near_even + far_even;
    ret_pixels[1] = NEAR * near_odd + FAR * far_odd;
    ret_pixels[2] = 0.5f * near_even + 2.0f * far_even;
    ret_pixels[3] = NEAR_CUBED * near_odd + FAR_CUBED * far_odd + f;
#endif
}

#define W_STEP (TO_LAST ? TO_CHANNELS : 1)
#define H_STEP (W_STEP * TO_W)
#define C_STEP (TO_LAST ? 1 : TO_H * TO_W)
#define N_STEP (TO_CHANNELS * TO_H * TO_W)

#define FOUR (KILN_TILE == 4 && !TO_LAST && TO_W % 4 == 0)

/* If a plane's rows are not a multiple of four, stores of single tiles would be narrow and
 * unaligned. So a work group that computes whole, contiguous planes of TO first assembles them in
 * shared memory. */
#define STAGED (!TO_LAST && !FOUR && KILN_GROUP_SIZE % KILN_TILES == 0)
#define PLANE (TO_H * TO_W)
#define PLANES (KILN_GROUP_SIZE / KILN_TILES)

/* |at| is the index of the first of EDGE x EDGE sums, |step| the distance to the next one. */
KILN_INLINE void pixels_of(KILN_GLOBAL const float *points, kiln_u32 at, kiln_u32 step,
                           float *ret_pixels)
{
    float sums[EDGE], half_way[EDGE * KILN_TILE], pixels[KILN_TILE];
    KILN_UNROLL
    for (int i = 0; i < EDGE; i++) {
        KILN_UNROLL
        for (int j = 0; j < EDGE; j++)
            sums[j] = points[at + (kiln_u32)(i * EDGE + j) * step];
        transform(sums, 1, half_way + i * KILN_TILE);
    }
    /* half_way has EDGE rows of KILN_TILE columns. */
    KILN_UNROLL
    for (int j = 0; j < KILN_TILE; j++) {
        transform(half_way + j, KILN_TILE, pixels);
        KILN_UNROLL
        for (int i = 0; i < KILN_TILE; i++)
            ret_pixels[i * KILN_TILE + j] = pixels[i];
    }
}

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_winograd_to(KILN_GLOBAL const float *KILN_RESTRICT points,
                      KILN_GLOBAL kiln_value *KILN_RESTRICT to, kiln_u32 n)
{
    struct spot s = spot_of_item(TO_CHANNELS, TO_LAST);
    kiln_u32 h = s.tile / COLUMN_TILES * KILN_TILE, w = s.tile % COLUMN_TILES * KILN_TILE;
    kiln_u32 from = POINTS_AT(s, TO_CHANNELS, TO_LAST);
    kiln_u32 step = POINT_STRIDE(TO_CHANNELS, TO_LAST);
    float pixels[KILN_TILE * KILN_TILE];
#if STAGED
    KILN_SHARED float planes[PLANES * PLANE];
    kiln_u32 first = kiln_group() * PLANES;
    if (s.n < n && h < TO_H) {
        kiln_u32 at = kiln_item() / KILN_TILES * PLANE + h * TO_W + w;
        pixels_of(points, from, step, pixels);
        KILN_UNROLL
        for (int i = 0; i < KILN_TILE * KILN_TILE; i++)
            if (h + i / KILN_TILE < TO_H && w + i % KILN_TILE < TO_W)
                planes[at + i / KILN_TILE * TO_W + i % KILN_TILE] = pixels[i];
    }
    kiln_barrier();
    for (kiln_u32 i = kiln_item(); i < PLANES * PLANE; i += KILN_GROUP_SIZE)
        if (first + i / PLANE < n * TO_CHANNELS)
            kiln_store(to, first * PLANE + i, planes[i]);
#else
    if (s.n >= n || h >= TO_H)
        return;
    pixels_of(points, from, step, pixels);
    kiln_u32 at = s.n * N_STEP + s.channel * C_STEP + h * H_STEP + w * W_STEP;
    KILN_UNROLL
    for (int i = 0; i < KILN_TILE; i++) {
        if (h + i >= TO_H)
            continue;
#if FOUR
        kiln_store4(
            to, at + i * H_STEP,
            kiln_make4(pixels[i * 4], pixels[i * 4 + 1], pixels[i * 4 + 2], pixels[i * 4 + 3]));
#else
        KILN_UNROLL
        for (int j = 0; j < KILN_TILE; j++)
            if (w + j < TO_W)
                kiln_store(to, at + i * H_STEP + j * W_STEP, pixels[i * KILN_TILE + j]);
#endif
    }
#endif
}

#endif
#endif
