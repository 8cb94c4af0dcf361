/* SPDX-License-Identifier: MIT */
/*
 * ConvDirectNarrow: backward data for few channels of x, as in the first layer of an image network.
 * For three channels, a matrix product would have only three rows.  With KILN_TURNED it computes
 * forward for few channels of y, with strides of 1: x and y are exchanged in all names and options,
 * and the weights are read in reverse order.
 *
 * x is cut into blocks of KILN_STRIDE_H x KILN_STRIDE_W pixels.  A tap reaches exactly one pixel of
 * every block.  In block i along an axis, the tap multiplies pixel i + OFFSET of y, so no product
 * with zero is computed.  engine/solver/conv_direct_narrow.c has an example.
 *
 * An item sums the channels of a group in a strip of KILN_COLUMNS neighbouring blocks.  A work
 * group computes KILN_ROWS rows of KILN_STRIPS strips.  KILN_DEPTH channels of y and their weights
 * are in shared memory at a time.  With KILN_SPLIT, |splits| work groups share the channels of y,
 * and each stores its sums in its own fp32 copy of x.
 *
 * Every size but the batch is defined by -D: KILN_TYPE KILN_C KILN_K KILN_GROUPS, and for each of
 * _D _H _W: KILN_IN KILN_OUT KILN_FILTER KILN_PAD KILN_STRIDE KILN_DILATION (in D all are 1, and
 * the pad is 0), and
 *   KILN_X_LAST KILN_W_LAST KILN_Y_LAST   1 where that tensor's channels come last
 *   KILN_COLUMNS KILN_STRIPS KILN_ROWS KILN_DEPTH   as explained above; KILN_COLUMNS is a multiple
 *                                                   of 4
 *   KILN_TURNED, KILN_SPLIT               0 or 1, as explained above
 * Memory is 16-byte aligned.
 */
#include "kiln/prelude.h"

#define ITEMS (KILN_STRIPS * KILN_ROWS)
#define GROUP_C (KILN_C / KILN_GROUPS)
#define GROUP_K (KILN_K / KILN_GROUPS)

/* Distances between neighbours, in elements. */
#define X_W (KILN_X_LAST ? KILN_C : 1)
#define X_H (X_W * KILN_IN_W)
#define X_C (KILN_X_LAST ? 1 : KILN_IN_H * KILN_IN_W)
#define X_N (KILN_C * KILN_IN_H * KILN_IN_W)
#define TAPS (KILN_FILTER_H * KILN_FILTER_W)
#if KILN_TURNED
#define W_TAP (KILN_W_LAST ? GROUP_K : 1)
#define W_C (GROUP_K * TAPS)
#define W_K (KILN_W_LAST ? 1 : TAPS)
#define TAP(tap) (TAPS - 1 - (tap))
#define ENTRY conv_direct_narrow_forward
#else
#define W_TAP (KILN_W_LAST ? GROUP_C : 1)
#define W_C (KILN_W_LAST ? 1 : TAPS)
#define W_K (GROUP_C * TAPS)
#define TAP(tap) (tap)
#define ENTRY conv_direct_narrow_backward_data
#endif
#define W_GROUP (GROUP_K * GROUP_C * TAPS)
#define Y_W (KILN_Y_LAST ? KILN_K : 1)
#define Y_H (Y_W * KILN_OUT_W)
#define Y_K (KILN_Y_LAST ? 1 : KILN_OUT_H * KILN_OUT_W)
#define Y_N (KILN_K * KILN_OUT_H * KILN_OUT_W)

/* For block i of x, row |r| or column |s| of the taps multiplies pixel i + OFFSET of y, and adds
 * the product to pixel PLACE of the block. */
#define CEIL_DIV(a, b) ((a) >= 0 ? ((a) + (b)-1) / (b) : -(-(a) / (b)))
#define OFFSET_H(r) CEIL_DIV(KILN_PAD_H - (int)(r)*KILN_DILATION_H, KILN_STRIDE_H)
#define OFFSET_W(s) CEIL_DIV(KILN_PAD_W - (int)(s)*KILN_DILATION_W, KILN_STRIDE_W)
#define PLACE_H(r) (OFFSET_H(r) * KILN_STRIDE_H - KILN_PAD_H + (int)(r)*KILN_DILATION_H)
#define PLACE_W(s) (OFFSET_W(s) * KILN_STRIDE_W - KILN_PAD_W + (int)(s)*KILN_DILATION_W)
#define FIRST_H OFFSET_H(KILN_FILTER_H - 1)
#define FIRST_W OFFSET_W(KILN_FILTER_W - 1)

#define BLOCKS_H ((KILN_IN_H + KILN_STRIDE_H - 1) / KILN_STRIDE_H)
#define BLOCKS_W ((KILN_IN_W + KILN_STRIDE_W - 1) / KILN_STRIDE_W)
#define TILE_W (KILN_STRIPS * KILN_COLUMNS)
#define TILES_H ((BLOCKS_H + KILN_ROWS - 1) / KILN_ROWS)
#define TILES_W ((BLOCKS_W + TILE_W - 1) / TILE_W)

/* The length of a row of y is an odd multiple of 4 floats, so that neighbouring rows start in
 * different banks. */
#define FOURS(count) (((count) + 3) / 4)
#define WINDOW (KILN_COLUMNS + OFFSET_W(0) - FIRST_W)
#define Y_ROWS (KILN_ROWS + OFFSET_H(0) - FIRST_H)
#define Y_COLUMNS (TILE_W + OFFSET_W(0) - FIRST_W)
#define Y_ROW (FOURS(Y_COLUMNS) / 2 * 8 + 4)
#define Y_CHANNEL (Y_ROWS * Y_ROW)
/* The channels of a tap are contiguous in shared memory. */
#define W_ROW (FOURS(KILN_FILTER_W * GROUP_C) * 4)
#define W_CHANNEL (KILN_FILTER_H * W_ROW)

/* The index in sum[pixel of the block][channel][block]. */
#define SUM(h, w, c, j) ((((h)*KILN_STRIDE_W + (w)) * GROUP_C + (c)) * KILN_COLUMNS + (j))
/* The last sum to which row |r| of the taps contributes. */
#define LAST_SUM(r) SUM(PLACE_H(r), PLACE_W(KILN_FILTER_W - 1), GROUP_C - 1, KILN_COLUMNS - 1)
#define SUMS (KILN_STRIDE_H * KILN_STRIDE_W * GROUP_C * KILN_COLUMNS)

/* Whether strips are stored four pixels at a time. */
#define FOUR_PIXELS (!KILN_X_LAST && KILN_IN_W % 4 == 0)

#define HAS_CHANNEL(channel) (GROUP_K % KILN_DEPTH == 0 || (channel) < GROUP_K)

#if KILN_SPLIT
typedef float sum_value;
#define put_sum(to, index, v) ((to)[index] = (v))
#define put_sum4 kiln_store_float4
#else
typedef kiln_value sum_value;
#define put_sum kiln_store
#define put_sum4 kiln_store4
#endif

KILN_INLINE void fetch_y(KILN_GLOBAL const kiln_value *y, kiln_u32 from, int row, int column,
                         kiln_u32 channel, KILN_LOCAL float *to)
{
    for (kiln_u32 i = kiln_item(); i < Y_ROWS * Y_COLUMNS; i += ITEMS) {
        kiln_u32 h = i / Y_COLUMNS, w = i % Y_COLUMNS;
        int at_h = row + (int)h, at_w = column + (int)w;
        int is_in = at_h >= 0 && at_h < KILN_OUT_H && at_w >= 0 && at_w < KILN_OUT_W;
        kiln_u32 at = from + (kiln_u32)(at_h * Y_H + at_w * Y_W);
        KILN_UNROLL
        for (kiln_u32 k = 0; k < KILN_DEPTH; k++) {
            float value = 0;
            if (is_in && HAS_CHANNEL(channel + k))
                value = kiln_load(y, at + (channel + k) * Y_K);
            to[k * Y_CHANNEL + h * Y_ROW + w] = value;
        }
    }
}

KILN_INLINE void fetch_w(KILN_GLOBAL const kiln_value *w, kiln_u32 group, kiln_u32 channel,
                         KILN_LOCAL float *to)
{
    for (kiln_u32 i = kiln_item(); i < KILN_DEPTH * TAPS * GROUP_C; i += ITEMS) {
        kiln_u32 c = i % GROUP_C, tap = i / GROUP_C % TAPS;
        kiln_u32 k = i / (TAPS * GROUP_C), s = tap % KILN_FILTER_W, r = tap / KILN_FILTER_W;
        float value = 0;
        if (HAS_CHANNEL(channel + k))
            value = kiln_load(w, group * W_GROUP + (channel + k) * W_K + c * W_C +
                                     TAP(tap) * W_TAP);
        to[k * W_CHANNEL + r * W_ROW + s * GROUP_C + c] = value;
    }
}

/* |y| points to the first pixel that the item's strip reads. */
KILN_INLINE void multiply(KILN_LOCAL const float *y, KILN_LOCAL const float *w, float *sum)
{
    float window[FOURS(WINDOW) * 4], weights[W_ROW];
    KILN_UNROLL
    for (int r = 0; r < KILN_FILTER_H; r++) {
        kiln_u32 row = (kiln_u32)r * W_ROW;
        if (r > 0)
            kiln_know_after(row, sum[LAST_SUM(r - 1)]);
        kiln_in_order();
        KILN_UNROLL
        for (int i = 0; i < W_ROW; i += 4)
            kiln_get_shared4(w + row + i, weights + i);
        if (r == 0 || OFFSET_H(r) != OFFSET_H(r - 1)) {
            KILN_UNROLL
            for (int i = 0; i < WINDOW; i += 4)
                kiln_get_shared4(y + (OFFSET_H(r) - FIRST_H) * Y_ROW + i, window + i);
        }
        KILN_UNROLL
        for (int s = 0; s < KILN_FILTER_W; s++) {
            KILN_UNROLL
            for (int c = 0; c < GROUP_C; c++) {
                float *to = sum + SUM(PLACE_H(r), PLACE_W(s), c, 0);
                const float *from = window + (OFFSET_W(s) - FIRST_W);
                float weight = weights[s * GROUP_C + c];
                KILN_UNROLL
                for (int j = 0; j < KILN_COLUMNS; j++)
                    to[j] += weight * from[j];
            }
        }
    }
}

#define PIXEL(i) sum[SUM(0, (i) % KILN_STRIDE_W, 0, (i) / KILN_STRIDE_W)]

/* |x| points to the row's first pixel, in column |column|. */
KILN_INLINE void put_row(KILN_GLOBAL sum_value *x, kiln_u32 column, const float *sum)
{
    KILN_UNROLL
    for (kiln_u32 i = 0; i < KILN_COLUMNS * KILN_STRIDE_W; i += FOUR_PIXELS ? 4 : 1) {
        if (column + i >= KILN_IN_W)
            continue;
        if (FOUR_PIXELS)
            put_sum4(x, i, kiln_make4(PIXEL(i), PIXEL(i + 1), PIXEL(i + 2), PIXEL(i + 3)));
        else
            put_sum(x, i * X_W, PIXEL(i));
    }
}

/* A split sums |channels| channels; x has |elements|. */
KILN_KERNEL(ITEMS)
void ENTRY(KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
           KILN_GLOBAL const kiln_value *KILN_RESTRICT y, KILN_GLOBAL sum_value *KILN_RESTRICT x,
           kiln_u32 splits, kiln_u32 channels, kiln_u32 elements)
{
    KILN_SHARED16 float some_y[KILN_DEPTH * Y_CHANNEL];
    KILN_SHARED16 float some_w[KILN_DEPTH * W_CHANNEL];
    float sum[SUMS] = { 0 };
    kiln_u32 id = kiln_group(), first = 0, end = GROUP_K;
    if (KILN_SPLIT) {
        kiln_u32 split = id % splits;
        id /= splits;
        first = split * channels;
        end = first + channels < GROUP_K ? first + channels : GROUP_K;
        x += split * elements;
    }
    kiln_u32 tile_w = id % TILES_W * TILE_W, tile_h = id / TILES_W % TILES_H * KILN_ROWS;
    kiln_u32 group = id / (TILES_W * TILES_H) % KILN_GROUPS;
    kiln_u32 image = id / (TILES_W * TILES_H) / KILN_GROUPS;
    kiln_u32 row = kiln_item() % KILN_ROWS, strip = kiln_item() / KILN_ROWS * KILN_COLUMNS;

    for (kiln_u32 channel = first; channel < end; channel += KILN_DEPTH) {
        kiln_barrier();
        fetch_y(y, image * Y_N + group * GROUP_K * Y_K, (int)tile_h + FIRST_H,
                (int)tile_w + FIRST_W, channel, some_y);
        fetch_w(w, group, channel, some_w);
        kiln_barrier();
#pragma unroll 1
        for (kiln_u32 k = 0; k < KILN_DEPTH; k++)
            multiply(some_y + k * Y_CHANNEL + row * Y_ROW + strip, some_w + k * W_CHANNEL, sum);
    }

    kiln_u32 column = (tile_w + strip) * KILN_STRIDE_W;
    KILN_UNROLL
    for (kiln_u32 h = 0; h < KILN_STRIDE_H; h++) {
        kiln_u32 at_h = (tile_h + row) * KILN_STRIDE_H + h;
        if (at_h >= KILN_IN_H)
            continue;
        KILN_UNROLL
        for (kiln_u32 c = 0; c < GROUP_C; c++)
            put_row(x + (image * X_N + (group * GROUP_C + c) * X_C + at_h * X_H + column * X_W),
                    column, sum + SUM(h, 0, c, 0));
    }
}
