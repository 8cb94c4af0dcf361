/* SPDX-License-Identifier: MIT */
/*
 * Forward and backward data in conv_implicit_gemm_vector.cl: the sum runs over channels and taps.
 *
 * Operand A is w.  Operand B is gathered from the source S, and results are written to the target
 * T.  Forward, S is x and T is y; in backward data, S is y and T is x.  A_M, A_K, A_TAP and S_W,
 * S_H, ... are the distances of neighbours along an axis, in elements.  Along one axis, for pixel p
 * of y and pixel i of x:
 *
 *     forward         y[p] = sum over t of w[t] * x[p * stride - pad + t * dilation]
 *     backward data   x[i] = sum over t of w[t] * y[(i + pad - t * dilation) / stride],
 *                     for the taps t where the quotient is whole
 *
 * In backward data, pixels with the same residue q of i + pad modulo the stride form a class.  All
 * pixels of a class use the same taps: every TAP_STRIDE-th one.  Each of these taps reads the pixel
 * of y that is TAP_STEP pixels (a negative number) from the one that the tap before reads.
 * Example: stride 2, pad 1, 3 taps, dilation 1.
 *
 *     q = 0    i = 1, 3, 5, ...    taps 0 and 2    y[(i + 1) / 2] and y[(i - 1) / 2]
 *     q = 1    i = 0, 2, 4, ...    tap 1           y[i / 2]
 *
 * Defines the same functions as igemm_vector_weights.h does for backward weights.
 */
#ifndef KILN_IGEMM_VECTOR_PIXELS_H
#define KILN_IGEMM_VECTOR_PIXELS_H

/* Number of taps that are summed over. */
#define SUM_TAPS (PATCHES ? 1 : TAPS)

#if KILN_PREPARED
#define A_M 1
#define A_K PREPARED_ROWS
#define A_TAP (PREPARED_CHANNELS * PREPARED_ROWS)
#define A_GROUP (PREPARED_TAPS * PREPARED_CHANNELS * PREPARED_ROWS)
#else
#define A_M (PATCHES ? 1 : KILN_DIRECTION == 0 ? W_K : W_C)
#define A_K (KILN_FLAT ? 1 : KILN_DIRECTION == 0 ? W_C : W_K)
#define A_TAP W_TAP
#define A_GROUP (GROUP_K * W_K)
#endif
#define A_ALONG (A_M <= A_K)
/* Whether four neighbours are aligned, and either all or none of them are elements of A. */
#define A_FOUR                                                                           \
    (A_ALONG ? A_M == 1 && A_K % 4 == 0 && (SUM_TAPS == 1 || A_TAP % 4 == 0) &&          \
                   (KILN_PREPARED || M_COUNT % 4 == 0)                                   \
             : A_K == 1 && A_M % 4 == 0 && (SUM_TAPS == 1 || KILN_FLAT || A_TAP % 4 == 0) && \
                   (KILN_FLAT ? FLAT_COUNT : CHANNELS) % 4 == 0 && !KILN_ASYNC)

#if KILN_DIRECTION == 0
#define S_LAST KILN_X_LAST
#define S_W X_W
#define S_H X_H
#define S_D X_D
#define S_C X_C
#define S_N X_N
#define S_CHANNELS KILN_C
#define SOURCE_D KILN_IN_D
#define SOURCE_H KILN_IN_H
#define SOURCE_W KILN_IN_W
#define T_LAST KILN_Y_LAST
#define T_C Y_K
#define T_N Y_N
#define T_W Y_W
#define T_H Y_H
#define T_D Y_D
#define T_CHANNELS KILN_K
#define TAP_STEP_D KILN_DILATION_D
#define TAP_STEP_H KILN_DILATION_H
#define TAP_STEP_W KILN_DILATION_W
#define CLASSES 1
#else
#define S_LAST KILN_Y_LAST
#define S_W Y_W
#define S_H Y_H
#define S_D Y_D
#define S_C Y_K
#define S_N Y_N
#define S_CHANNELS KILN_K
#define SOURCE_D KILN_OUT_D
#define SOURCE_H KILN_OUT_H
#define SOURCE_W KILN_OUT_W
#define T_LAST KILN_X_LAST
#define T_C X_C
#define T_N X_N
#define T_W X_W
#define T_H X_H
#define T_D X_D
#define T_CHANNELS KILN_C
/* These divisions are exact: a tap stride is a multiple of stride / gcd(stride, dilation). */
#define TAP_STEP_D (-(KILN_TAP_STRIDE_D * KILN_DILATION_D / KILN_STRIDE_D))
#define TAP_STEP_H (-(KILN_TAP_STRIDE_H * KILN_DILATION_H / KILN_STRIDE_H))
#define TAP_STEP_W (-(KILN_TAP_STRIDE_W * KILN_DILATION_W / KILN_STRIDE_W))
#define CLASSES (POINTWISE || PATCHES ? 1 : KILN_STRIDE_D * KILN_STRIDE_H * KILN_STRIDE_W)
#endif
#define B_ALONG (!S_LAST)
#define B_FOUR                                                                      \
    (S_LAST ? CHANNELS % 4 == 0 && S_CHANNELS % 4 == 0 && !KILN_FLAT && !KILN_ASYNC \
            : (PATCHES || (POINTWISE && (KILN_DIRECTION == 1 || UNIT_STRIDE))) &&   \
                  OUT_PLANE % 4 == 0)
/* Whether a tap may read outside the image. */
#define BOUNDED (KILN_DIRECTION == 0 ? !UNPADDED : !POINTWISE && !PATCHES)
/* Whether the pixels of one image and class are contiguous in the written tensor. */
#define T_DENSE (KILN_DIRECTION == 0 || (CLASSES == 1 && UNIT_STRIDE))
#define T_PLANE (KILN_DIRECTION == 0 || POINTWISE ? OUT_PLANE : IN_PLANE)

#include "kiln/igemm_vector_fetch.h"

#if KILN_DIRECTION == 1

/* |ret_from| is the pixel of y that the first tap reads for the first pixel of class |q|. */
KILN_INLINE void axis_class(kiln_u32 q, kiln_u32 in, int pad, int stride, int dilation,
                            kiln_u32 filter, kiln_u32 tap_stride, kiln_u32 *ret_first,
                            kiln_u32 *ret_count, kiln_u32 *ret_tap, kiln_u32 *ret_taps,
                            int *ret_from)
{
    kiln_u32 first = (kiln_u32)(((int)q - pad % stride + stride) % stride), tap = 0;
    while (tap < tap_stride && tap * (kiln_u32)dilation % (kiln_u32)stride != q)
        tap++;
    *ret_first = first;
    *ret_count = first < in ? (in - 1 - first) / (kiln_u32)stride + 1 : 0;
    *ret_tap = tap;
    *ret_taps = tap < tap_stride && tap < filter ? (filter - 1 - tap) / tap_stride + 1 : 0;
    *ret_from = ((int)first + pad - (int)tap * dilation) / stride;
}

KILN_INLINE void class_init(struct tile *tile, kiln_u32 q)
{
    if (POINTWISE || PATCHES) { /* the columns are pixels of y */
        tile->count_d = KILN_OUT_D;
        tile->count_h = KILN_OUT_H;
        tile->count_w = KILN_OUT_W;
        tile->first_d = tile->first_h = tile->first_w = 0;
        tile->tap_d = tile->tap_h = tile->tap_w = 0;
        tile->from_d = tile->from_h = tile->from_w = 0;
        tile->taps_d = tile->taps_h = tile->taps_w = 1;
        return;
    }
    axis_class(q % KILN_STRIDE_W, KILN_IN_W, KILN_PAD_W, KILN_STRIDE_W, KILN_DILATION_W,
               KILN_FILTER_W, KILN_TAP_STRIDE_W, &tile->first_w, &tile->count_w, &tile->tap_w,
               &tile->taps_w, &tile->from_w);
    axis_class(q / KILN_STRIDE_W % KILN_STRIDE_H, KILN_IN_H, KILN_PAD_H, KILN_STRIDE_H,
               KILN_DILATION_H, KILN_FILTER_H, KILN_TAP_STRIDE_H, &tile->first_h, &tile->count_h,
               &tile->tap_h, &tile->taps_h, &tile->from_h);
    axis_class(q / (KILN_STRIDE_W * KILN_STRIDE_H), KILN_IN_D, KILN_PAD_D, KILN_STRIDE_D,
               KILN_DILATION_D, KILN_FILTER_D, KILN_TAP_STRIDE_D, &tile->first_d, &tile->count_d,
               &tile->tap_d, &tile->taps_d, &tile->from_d);
}

/* Column tiles are numbered class by class. */
KILN_INLINE void locate(struct tile *tile, kiln_u32 column_tile, kiln_u32 n)
{
    for (kiln_u32 q = 0; q < CLASSES; q++) {
        class_init(tile, q);
        tile->columns = n * tile->count_d * tile->count_h * tile->count_w;
        kiln_u32 tiles = (tile->columns + KILN_TILE_N - 1) / KILN_TILE_N;
        if (CLASSES == 1 || column_tile < tiles)
            break;
        column_tile -= tiles;
    }
    tile->n = column_tile * KILN_TILE_N;
}

#else

KILN_INLINE void locate(struct tile *tile, kiln_u32 column_tile, kiln_u32 n)
{
    tile->n = column_tile * KILN_TILE_N;
    tile->columns = n * OUT_PLANE;
    tile->taps_d = KILN_FILTER_D;
    tile->taps_h = KILN_FILTER_H;
    tile->taps_w = KILN_FILTER_W;
}

#endif

KILN_INLINE kiln_u32 step_count(const struct tile *tile, kiln_u32 n)
{
    (void)n;
    return KILN_FLAT ? BLOCKS(FLAT_COUNT, KILN_TILE_K)
                     : BLOCKS(CHANNELS, KILN_TILE_K) * tile->taps_d * tile->taps_h * tile->taps_w;
}

struct cursor {
    kiln_u32 channel, d, h, w; /* in a flat sum, |channel| is the position in the sum */
};
/* Whether each step is for one of several taps. */
#define TAP_BY_TAP (!KILN_FLAT && SUM_TAPS > 1)

KILN_INLINE void cursor_init(struct cursor *at, const struct tile *tile, kiln_u32 step)
{
    at->d = at->h = at->w = 0;
    if (!TAP_BY_TAP) {
        at->channel = step * KILN_TILE_K;
        return;
    }
    at->w = step % tile->taps_w;
    step /= tile->taps_w;
    at->h = step % tile->taps_h;
    step /= tile->taps_h;
    at->d = step % tile->taps_d;
    at->channel = step / tile->taps_d * KILN_TILE_K;
}

KILN_INLINE void cursor_advance(struct cursor *at, const struct tile *tile)
{
    if (TAP_BY_TAP) {
        if (++at->w < tile->taps_w)
            return;
        at->w = 0;
        if (++at->h < tile->taps_h)
            return;
        at->h = 0;
        if (++at->d < tile->taps_d)
            return;
        at->d = 0;
    }
    at->channel += KILN_TILE_K;
}

/* If no tap can read outside the image, no bits are needed, and the filter may have any number of
 * taps. */
#if BOUNDED
#define SHIFT_H KILN_FILTER_W
#define SHIFT_D (KILN_FILTER_W + KILN_FILTER_H)
#define TAP_BITS(d, h, w) (1u << (w) | 1u << (SHIFT_H + (h)) | 1u << (SHIFT_D + (d)))
#else
#define SHIFT_H 0
#define SHIFT_D 0
#define TAP_BITS(d, h, w) 0u
#endif

/* Returns one bit for each tap of an axis, set where the tap reads inside the image.  The first tap
 * reads |from|. */
KILN_INLINE kiln_u32 taps_inside(int from, int step, kiln_u32 taps, kiln_u32 most, int size)
{
    kiln_u32 bits = 0;
    KILN_UNROLL
    for (kiln_u32 tap = 0; tap < most; tap++)
        if (tap < taps && (kiln_u32)(from + (int)tap * step) < (kiln_u32)size)
            bits |= 1u << tap;
    return bits;
}

/* A column's pixel, and the pixel of the source that its first tap reads. */
struct pixel {
    kiln_u32 image;
    kiln_u32 d, h, w; /* pixel of the class */
};

KILN_INLINE struct pixel pixel_at(const struct tile *tile, kiln_u32 column)
{
    struct pixel at;
#if KILN_DIRECTION == 0
    kiln_u32 count_d = KILN_OUT_D, count_h = KILN_OUT_H, count_w = KILN_OUT_W;
    (void)tile;
#else
    kiln_u32 count_d = tile->count_d, count_h = tile->count_h, count_w = tile->count_w;
#endif
    at.w = column % count_w;
    column /= count_w;
    at.h = column % count_h;
    column /= count_h;
    at.d = column % count_d;
    at.image = column / count_d;
    return at;
}

KILN_INLINE void find_source(const struct tile *tile, kiln_u32 column, kiln_u32 *ret_at,
                             kiln_u32 *ret_taps)
{
    struct pixel p = pixel_at(tile, column);
#if KILN_DIRECTION == 0
    int d = (int)p.d * KILN_STRIDE_D - KILN_PAD_D;
    int h = (int)p.h * KILN_STRIDE_H - KILN_PAD_H;
    int w = (int)p.w * KILN_STRIDE_W - KILN_PAD_W;
#else
    int d = tile->from_d + (int)p.d, h = tile->from_h + (int)p.h, w = tile->from_w + (int)p.w;
#endif
    *ret_at = p.image * S_N + (kiln_u32)(d * S_D + h * S_H + w * S_W);
    *ret_taps = 0;
    if (BOUNDED)
        *ret_taps =
            taps_inside(w, TAP_STEP_W, tile->taps_w, KILN_FILTER_W, SOURCE_W) |
            taps_inside(h, TAP_STEP_H, tile->taps_h, KILN_FILTER_H, SOURCE_H) << SHIFT_H |
            taps_inside(d, TAP_STEP_D, tile->taps_d, KILN_FILTER_D, SOURCE_D) << SHIFT_D;
}

KILN_INLINE void fetcher_init(struct fetcher *f, const struct tile *tile, kiln_u32 n)
{
    (void)n;
    KILN_UNROLL
    for (int span = 0; span < A_SPANS; span++) {
        kiln_u32 m =
            tile->m + FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH) + (kiln_u32)span * A_SPAN_STEP;
        f->a_at[span] = tile->group * A_GROUP + (m < M_COUNT ? m : 0) * A_M + f->a_depth * A_K;
    }
    KILN_UNROLL
    for (int span = 0; span < B_SPANS; span++) {
        kiln_u32 column =
            tile->n + FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH) + (kiln_u32)span * B_SPAN_STEP;
        find_source(tile, column < tile->columns ? column : 0, &f->b_at[span], &f->b_taps[span]);
        f->b_at[span] += tile->group * CHANNELS * S_C;
        if (!KILN_FLAT)
            f->b_at[span] += f->b_depth * S_C;
    }
}

#define CHECK_DEPTH (CHANNELS % KILN_TILE_K != 0)

#if KILN_FLAT

/* |offset| leads from a pixel's first element to the one to read.  |bits| are the bits of the taps
 * that must be inside; beyond the end of the sum, a bit that is never set. */
struct place {
    kiln_u32 offset, bits;
};

KILN_INLINE struct place place_at(kiln_u32 at)
{
    struct place place = { 0, 1u << 31 };
    if (at < FLAT_COUNT) {
        kiln_u32 c = KILN_W_LAST ? at % GROUP_C : at / TAPS;
        kiln_u32 tap = KILN_W_LAST ? at / GROUP_C : at % TAPS;
        kiln_u32 w = tap % KILN_FILTER_W, h = tap / KILN_FILTER_W % KILN_FILTER_H;
        kiln_u32 d = tap / (KILN_FILTER_W * KILN_FILTER_H);
        place.offset = c * S_C + d * (KILN_DILATION_D * S_D) + h * (KILN_DILATION_H * S_H) +
                       w * (KILN_DILATION_W * S_W);
        place.bits = TAP_BITS(d, h, w);
    }
    return place;
}

#define PLACES (BLOCKS(FLAT_COUNT, KILN_TILE_K) * KILN_TILE_K)

KILN_INLINE void fetch_all(struct fetcher *f, const struct cursor *at,
                           KILN_GLOBAL const kiln_value *a, KILN_GLOBAL const kiln_value *b,
                           kiln_u32 stage, KILN_LOCAL const struct place *places)
{
    (void)stage;
    if (!A_SPARSE || f->a_active) {
        KILN_UNROLL
        for (int depth = 0; depth < A_DEPTHS; depth++) {
            kiln_u32 along = (kiln_u32)depth * A_DEPTH_STEP;
            KILN_UNROLL
            for (int span = 0; span < A_SPANS; span++)
                FETCH_A(span, depth, stage, f->a_at[span] + (at->channel + along) * A_K,
                        FLAT_COUNT % KILN_TILE_K != 0 && !KILN_PREPARED,
                        at->channel + f->a_depth + along < FLAT_COUNT);
        }
    }
    if (!B_SPARSE || f->b_active) {
        KILN_UNROLL
        for (int depth = 0; depth < B_DEPTHS; depth++) {
            kiln_u32 along = (kiln_u32)depth * B_DEPTH_STEP;
            kiln_u32 offset = places[at->channel + f->b_depth + along].offset;
            kiln_u32 bits = places[at->channel + f->b_depth + along].bits;
            KILN_UNROLL
            for (int span = 0; span < B_SPANS; span++)
                FETCH_B(span, depth, stage, f->b_at[span] + offset, 1,
                        (f->b_taps[span] & bits) == bits);
        }
    }
}

#else

KILN_INLINE void fetch_all(struct fetcher *f, const struct tile *tile, const struct cursor *at,
                           kiln_u32 n, KILN_GLOBAL const kiln_value *a,
                           KILN_GLOBAL const kiln_value *b, kiln_u32 stage)
{
#if KILN_DIRECTION == 1
    kiln_u32 d = tile->tap_d + at->d * KILN_TAP_STRIDE_D;
    kiln_u32 h = tile->tap_h + at->h * KILN_TAP_STRIDE_H;
    kiln_u32 w = tile->tap_w + at->w * KILN_TAP_STRIDE_W;
#else
    kiln_u32 d = at->d, h = at->h, w = at->w;
    (void)tile;
#endif
    kiln_u32 tap = (d * KILN_FILTER_H + h) * KILN_FILTER_W + w;
    kiln_u32 bits = TAP_BITS(at->d, at->h, at->w);
    kiln_u32 a_from = at->channel * A_K + tap * A_TAP;
    kiln_u32 b_from = at->channel * S_C + at->d * (kiln_u32)(TAP_STEP_D * S_D) +
                      at->h * (kiln_u32)(TAP_STEP_H * S_H) + at->w * (kiln_u32)(TAP_STEP_W * S_W);
    (void)n;
    (void)stage;
    if (!A_SPARSE || f->a_active) {
        KILN_UNROLL
        for (int depth = 0; depth < A_DEPTHS; depth++) {
            kiln_u32 along = (kiln_u32)depth * A_DEPTH_STEP;
            KILN_UNROLL
            for (int span = 0; span < A_SPANS; span++)
                FETCH_A(span, depth, stage, f->a_at[span] + a_from + along * A_K,
                        CHECK_DEPTH && !KILN_PREPARED, at->channel + f->a_depth + along < CHANNELS);
        }
    }
    if (!B_SPARSE || f->b_active) {
        KILN_UNROLL
        for (int depth = 0; depth < B_DEPTHS; depth++) {
            kiln_u32 along = (kiln_u32)depth * B_DEPTH_STEP;
            int there = !CHECK_DEPTH || at->channel + f->b_depth + along < CHANNELS;
            KILN_UNROLL
            for (int span = 0; span < B_SPANS; span++)
                FETCH_B(span, depth, stage, f->b_at[span] + b_from + along * S_C,
                        CHECK_DEPTH || BOUNDED,
                        there && (!BOUNDED || (f->b_taps[span] & bits) == bits));
        }
    }
}

#endif

/* Offset from the patch's first pixel.  Rows are in the order of w. */
KILN_INLINE kiln_u32 patch_place(kiln_u32 m)
{
    kiln_u32 c = KILN_W_LAST ? m % GROUP_C : m / TAPS, tap = KILN_W_LAST ? m / GROUP_C : m % TAPS;
    return c * T_C + tap % KILN_FILTER_W * T_W + tap / KILN_FILTER_W % KILN_FILTER_H * T_H +
           tap / (KILN_FILTER_W * KILN_FILTER_H) * T_D;
}

/* Whether rows 4i to 4i + 3 of a patch are neighbours in x. */
#define PATCH_FOUR                                                   \
    (T_LAST ? KILN_W_LAST && GROUP_C % 4 == 0 && T_CHANNELS % 4 == 0 \
            : !KILN_W_LAST && KILN_FILTER_W % 4 == 0)
#define COLUMNS_FOUR (!T_LAST && T_DENSE && T_PLANE % 4 == 0)
#define ROWS_FOUR (T_LAST && T_CHANNELS % 4 == 0 && M_COUNT % 4 == 0)
#define ROW_STEP T_C
#define OUTPUT_ELEMENTS(n) ((n)*T_N)

KILN_INLINE kiln_u32 output_place(const struct tile *tile, kiln_u32 column)
{
    kiln_u32 base = tile->group * (PATCHES ? GROUP_C : M_COUNT) * T_C;
    if (T_DENSE) {
        kiln_u32 image = column / T_PLANE;
        return base + image * T_N + (column - image * T_PLANE) * T_W;
    }
#if KILN_DIRECTION == 1
    struct pixel p = pixel_at(tile, column);
    return base + p.image * X_N + (tile->first_d + p.d * KILN_STRIDE_D) * X_D +
           (tile->first_h + p.h * KILN_STRIDE_H) * X_H +
           (tile->first_w + p.w * KILN_STRIDE_W) * X_W;
#else
    return base;
#endif
}

#endif
