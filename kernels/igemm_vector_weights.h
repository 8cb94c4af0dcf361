/* SPDX-License-Identifier: MIT */
/*
 * Backward weights in conv_implicit_gemm_vector.cl: the sum runs over y's pixels.
 *
 * Defines the functions that the kernel calls: locate, step_count, cursor_init, cursor_advance,
 * fetcher_init and fetch_all.  For the position of results it defines output_place, COLUMNS_FOUR,
 * ROWS_FOUR, ROW_STEP and OUTPUT_ELEMENTS.
 */
#ifndef KILN_IGEMM_VECTOR_WEIGHTS_H
#define KILN_IGEMM_VECTOR_WEIGHTS_H

#define N_COUNT (GROUP_C * TAPS)
#define A_ALONG KILN_Y_LAST
#define B_ALONG KILN_X_LAST
#define A_FOUR \
    (KILN_Y_LAST ? KILN_K % 4 == 0 && GROUP_K % 4 == 0 : OUT_PLANE % 4 == 0 && !KILN_ASYNC)
#define B_FOUR                                         \
    (KILN_X_LAST ? KILN_C % 4 == 0 && GROUP_C % 4 == 0 \
                 : SAME_PLANE && OUT_PLANE % 4 == 0 && !KILN_ASYNC)

#include "kiln/igemm_vector_fetch.h"

KILN_INLINE kiln_u32 step_count(const struct tile *tile, kiln_u32 n)
{
    (void)tile;
    return (n * OUT_PLANE + KILN_TILE_K - 1) / KILN_TILE_K;
}

KILN_INLINE void locate(struct tile *tile, kiln_u32 column_tile, kiln_u32 n)
{
    (void)n;
    tile->n = column_tile * KILN_TILE_N;
    tile->columns = N_COUNT;
}

struct cursor {
    kiln_u32 pixel;
};

KILN_INLINE void cursor_init(struct cursor *at, const struct tile *tile, kiln_u32 step)
{
    (void)tile;
    at->pixel = step * KILN_TILE_K;
}

KILN_INLINE void cursor_advance(struct cursor *at, const struct tile *tile)
{
    (void)tile;
    at->pixel += KILN_TILE_K;
}

/* Columns are in x's order, so that neighbours are contiguous in memory. */
KILN_INLINE void split_column(kiln_u32 j, kiln_u32 *ret_c, kiln_u32 *ret_tap)
{
    *ret_c = KILN_X_LAST ? j % GROUP_C : j / TAPS;
    *ret_tap = KILN_X_LAST ? j / GROUP_C : j % TAPS;
}

KILN_INLINE void fetcher_init(struct fetcher *f, const struct tile *tile, kiln_u32 n)
{
    (void)n;
    KILN_UNROLL
    for (int span = 0; span < A_SPANS; span++) {
        kiln_u32 m =
            tile->m + FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH) + (kiln_u32)span * A_SPAN_STEP;
        f->a_at[span] = (tile->group * GROUP_K + (m < M_COUNT ? m : 0)) * Y_K;
    }
    KILN_UNROLL
    for (int span = 0; span < B_SPANS; span++) {
        kiln_u32 c, tap,
            j = tile->n + FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH) + (kiln_u32)span * B_SPAN_STEP;
        split_column(j < N_COUNT ? j : 0, &c, &tap);
        f->b_w[span] = (int)(tap % KILN_FILTER_W * KILN_DILATION_W) - KILN_PAD_W;
        f->b_h[span] = (int)(tap / KILN_FILTER_W % KILN_FILTER_H * KILN_DILATION_H) - KILN_PAD_H;
        f->b_d[span] = (int)(tap / (KILN_FILTER_W * KILN_FILTER_H) * KILN_DILATION_D) - KILN_PAD_D;
        f->b_at[span] = (tile->group * GROUP_C + c) * X_C +
                        (kiln_u32)(f->b_d[span] * X_D + f->b_h[span] * X_H + f->b_w[span] * X_W);
    }
}

/* |at| may be negative. */
#define IS_IN(at, size) ((kiln_u32)(at) < (kiln_u32)(size))

KILN_INLINE void fetch_all(struct fetcher *f, const struct tile *tile, const struct cursor *at,
                           kiln_u32 n, KILN_GLOBAL const kiln_value *a,
                           KILN_GLOBAL const kiln_value *b, kiln_u32 stage)
{
    kiln_u32 pixels = n * OUT_PLANE;
    (void)tile;
    (void)stage;
    if (!A_SPARSE || f->a_active) {
        KILN_UNROLL
        for (int depth = 0; depth < A_DEPTHS; depth++) {
            kiln_u32 pixel = at->pixel + f->a_depth + (kiln_u32)depth * A_DEPTH_STEP;
            kiln_u32 image = pixel / OUT_PLANE;
            kiln_u32 from =
                KILN_Y_LAST ? pixel * KILN_K : image * Y_N + (pixel - image * OUT_PLANE);
            KILN_UNROLL
            for (int span = 0; span < A_SPANS; span++)
                FETCH_A(span, depth, stage, f->a_at[span] + from, 1, pixel < pixels);
        }
    }
    if (!B_SPARSE || f->b_active) {
        KILN_UNROLL
        for (int depth = 0; depth < B_DEPTHS; depth++) {
            kiln_u32 pixel = at->pixel + f->b_depth + (kiln_u32)depth * B_DEPTH_STEP;
            kiln_u32 image = pixel / OUT_PLANE, place = pixel - image * OUT_PLANE;
            int w = (int)(place % KILN_OUT_W * KILN_STRIDE_W);
            int h = (int)(place / KILN_OUT_W % KILN_OUT_H * KILN_STRIDE_H);
            int d = (int)(place / (KILN_OUT_W * KILN_OUT_H) * KILN_STRIDE_D);
            kiln_u32 from = image * X_N + (kiln_u32)(d * X_D + h * X_H + w * X_W);
            if (SAME_PLANE)
                from = KILN_X_LAST ? pixel * KILN_C : image * X_N + place;
            KILN_UNROLL
            for (int span = 0; span < B_SPANS; span++)
                FETCH_B(span, depth, stage, f->b_at[span] + from, 1,
                        pixel < pixels && (UNPADDED || (IS_IN(d + f->b_d[span], KILN_IN_D) &&
                                                        IS_IN(h + f->b_h[span], KILN_IN_H) &&
                                                        IS_IN(w + f->b_w[span], KILN_IN_W))));
        }
    }
}

/* Only neighbouring columns of the result can be contiguous. */
#define COLUMNS_FOUR (N_COUNT % 4 == 0 && (KILN_X_LAST == KILN_W_LAST || TAPS == 1 || GROUP_C == 1))
#define ROWS_FOUR 0
#define ROW_STEP W_K
#define OUTPUT_ELEMENTS(n) ((kiln_u32)(KILN_K * W_K))

KILN_INLINE kiln_u32 output_place(const struct tile *tile, kiln_u32 column)
{
    kiln_u32 c, tap;
    split_column(column, &c, &tap);
    return tile->group * GROUP_K * W_K + c * W_C + tap * W_TAP;
}

#endif
