/* SPDX-License-Identifier: MIT */
/*
 * ConvDepthwise: convolutions whose groups have one input channel and K / C output channels.  Each
 * element takes part in few products, so memory bandwidth limits the speed;
 * engine/solver/conv_depthwise.c explains the blocking.
 *
 * A program has one direction (KILN_DIRECTION: 0 forward, 1 backward data, 2 backward weights).
 * Every size but the batch is defined by -D:
 *   KILN_C KILN_K, and for each of _D _H _W:
 *   KILN_IN KILN_OUT KILN_FILTER KILN_PAD KILN_STRIDE KILN_DILATION
 *   KILN_X_LAST       1 where the channels of x and y come last
 *   KILN_COLUMNS      neighbouring pixels along w that an item processes at a time
 *   KILN_ROWS         (direction 0, 1) outputs along h of an item, which share loaded rows.  In
 *                     direction 1, KILN_ROWS and KILN_COLUMNS are multiples of the strides, or both
 *                     are 1
 *   KILN_VECTOR       neighbouring channels of an item; 1 where channels come first
 *   KILN_LANES        items side by side along the channels of a group; 1 where channels come first
 *   KILN_GROUP_SIZE   items in a work group: KILN_LANES times a power of two
 *   KILN_TAP_ROWS     (direction 2) rows of the filter whose sums an item keeps
 *   KILN_TAP_COLUMNS  (direction 2) columns of each of these rows
 *   KILN_IS_SPLIT     (direction 2) 1: |splits| work groups share the sum of a weight; each writes
 *                     its own fp32 copy of w to the workspace
 * Memory is 16-byte aligned.  Tensors have fewer than 2^31 elements; padded inputs and filters with
 * their dilation are shorter than 2^30.
 */
#include "kiln/prelude.h"

#define TAPS (KILN_FILTER_D * KILN_FILTER_H * KILN_FILTER_W)
#define MULTIPLIER (KILN_K / KILN_C)
#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))
#define FLOOR_DIV(a, b) ((a) >= 0 ? (a) / (b) : -CEIL_DIV(-(a), b))

#define LANE (kiln_item() % KILN_LANES)
#define PLACE (kiln_item() / KILN_LANES)
#define PLACES (KILN_GROUP_SIZE / KILN_LANES)
#define GROUP_CHANNELS (KILN_LANES * KILN_VECTOR)

/* Distances between neighbours, in elements. */
#define X_W (KILN_X_LAST ? KILN_C : 1)
#define X_H (X_W * KILN_IN_W)
#define X_D (X_H * KILN_IN_H)
#define X_C (KILN_X_LAST ? 1 : KILN_IN_D * KILN_IN_H * KILN_IN_W)
#define X_N (KILN_C * KILN_IN_D * KILN_IN_H * KILN_IN_W)
#define Y_W (KILN_X_LAST ? KILN_K : 1)
#define Y_H (Y_W * KILN_OUT_W)
#define Y_D (Y_H * KILN_OUT_H)
#define Y_K (KILN_X_LAST ? 1 : KILN_OUT_D * KILN_OUT_H * KILN_OUT_W)
#define Y_N (KILN_K * KILN_OUT_D * KILN_OUT_H * KILN_OUT_W)

/* |at| is a multiple of KILN_VECTOR. */
KILN_INLINE void load_vector(KILN_GLOBAL const kiln_value *from, kiln_u32 at, float *ret_values)
{
#if KILN_VECTOR % 4 == 0
    KILN_UNROLL
    for (int v = 0; v < KILN_VECTOR; v += 4) {
        kiln_float4 four = kiln_load4(from, at + v);
        ret_values[v] = four.x;
        ret_values[v + 1] = four.y;
        ret_values[v + 2] = four.z;
        ret_values[v + 3] = four.w;
    }
#else
    KILN_UNROLL
    for (int v = 0; v < KILN_VECTOR; v++)
        ret_values[v] = kiln_load(from, at + v);
#endif
}

#if KILN_DIRECTION < 2

KILN_INLINE void store_vector(KILN_GLOBAL kiln_value *to, kiln_u32 at, const float *values)
{
#if KILN_VECTOR % 4 == 0
    KILN_UNROLL
    for (int v = 0; v < KILN_VECTOR; v += 4)
        kiln_store4(to, at + v, kiln_make4(values[v], values[v + 1], values[v + 2], values[v + 3]));
#else
    KILN_UNROLL
    for (int v = 0; v < KILN_VECTOR; v++)
        kiln_store(to, at + v, values[v]);
#endif
}

/* FROM is the tensor that is read, and TO the one that is computed.  Forward, FROM is x and TO is
 * y; in backward data, FROM is y and TO is x. */
#if KILN_DIRECTION == 0
#define TO_CHANNELS KILN_K
#define TO_(axis) KILN_OUT_##axis
#define TO_STRIDE(axis) Y_##axis
#define TO_CHANNEL_STRIDE Y_K
#define FROM_(axis) KILN_IN_##axis
#define FROM_STRIDE(axis) X_##axis
#define FROM_CHANNEL_STRIDE X_C
#define FILTERS 1 /* filters that contribute to an output */
#define FROM_CHANNEL(to) ((to) / MULTIPLIER)
#else
#define TO_CHANNELS KILN_C
#define TO_(axis) KILN_IN_##axis
#define TO_STRIDE(axis) X_##axis
#define TO_CHANNEL_STRIDE X_C
#define FROM_(axis) KILN_OUT_##axis
#define FROM_STRIDE(axis) Y_##axis
#define FROM_CHANNEL_STRIDE Y_K
#define FILTERS MULTIPLIER
#define FROM_CHANNEL(to) ((to)*MULTIPLIER)
#endif

/* Along one axis, the coordinate of FROM that |tap| reads for output |to|, multiplied by FROM_TIMES
 * (so that it is an integer even where the tap reads nothing). */
#if KILN_DIRECTION == 0
#define FROM_TIMES(axis) 1
#define FROM_AT(axis, to, tap) \
    ((int)(to)*KILN_STRIDE_##axis + (int)(tap)*KILN_DILATION_##axis - KILN_PAD_##axis)
#else
#define FROM_TIMES(axis) KILN_STRIDE_##axis
#define FROM_AT(axis, to, tap) ((int)(to) + KILN_PAD_##axis - (int)(tap)*KILN_DILATION_##axis)
#endif
#define IS_FROM(axis, at) \
    ((at) >= 0 && (at) % FROM_TIMES(axis) == 0 && (at) / FROM_TIMES(axis) < FROM_(axis))

/*
 * Along an axis, a block of |count| neighbouring outputs reads the WINDOW elements of FROM that
 * start at FIRST.  Element i contributes to output j through tap DISTANCE / dilation, if
 * IS_TAP(DISTANCE).  WINDOW and DISTANCE are constants, so the loops unroll without conditions.
 */
#if KILN_DIRECTION == 0
#define FIRST(axis, block, count) ((int)(block) * ((count)*KILN_STRIDE_##axis) - KILN_PAD_##axis)
#define WINDOW(axis, count) \
    (((count)-1) * KILN_STRIDE_##axis + (KILN_FILTER_##axis - 1) * KILN_DILATION_##axis + 1)
#define DISTANCE(axis, i, j) ((i) - (j)*KILN_STRIDE_##axis)
#else
#define LOW(axis) \
    FLOOR_DIV(KILN_PAD_##axis - (KILN_FILTER_##axis - 1) * KILN_DILATION_##axis, KILN_STRIDE_##axis)
#define FIRST(axis, block, count) ((int)(block) * ((count) / KILN_STRIDE_##axis) + LOW(axis))
#define WINDOW(axis, count) (((count)-1 + KILN_PAD_##axis) / KILN_STRIDE_##axis - LOW(axis) + 1)
#define DISTANCE(axis, i, j) ((j) + KILN_PAD_##axis - ((i) + LOW(axis)) * KILN_STRIDE_##axis)
#endif
#define IS_TAP(axis, distance)                                    \
    ((distance) >= 0 && (distance) % KILN_DILATION_##axis == 0 && \
     (distance) / KILN_DILATION_##axis < KILN_FILTER_##axis)

#define COLUMN_BLOCKS CEIL_DIV(TO_(W), KILN_COLUMNS)
#define ROW_BLOCKS CEIL_DIV(TO_(H), KILN_ROWS)
#define IMAGE_BLOCKS (TO_(D) * ROW_BLOCKS * COLUMN_BLOCKS)

struct block {
    kiln_u32 n, channel, d, row, column;
};

/* Items are numbered in the order of their outputs in memory. */
KILN_DEVICE struct block block_of_item(kiln_u32 n)
{
    struct block b;
    kiln_u32 place;
#if KILN_X_LAST
    kiln_u32 channel_blocks = CEIL_DIV(TO_CHANNELS, GROUP_CHANNELS);
    b.channel = kiln_group() % channel_blocks * GROUP_CHANNELS + LANE * KILN_VECTOR;
    place = kiln_group() / channel_blocks * PLACES + PLACE;
#else
    kiln_u32 groups_of_channel = CEIL_DIV(n * IMAGE_BLOCKS, PLACES);
    b.channel = kiln_group() / groups_of_channel;
    place = kiln_group() % groups_of_channel * PLACES + PLACE;
#endif
    b.column = place % COLUMN_BLOCKS;
    place /= COLUMN_BLOCKS;
    b.row = place % ROW_BLOCKS;
    place /= ROW_BLOCKS;
    b.d = place % TO_(D);
    b.n = place / TO_(D);
    return b;
}

/* Loads the values for the KILN_VECTOR outputs from |channel| on.  |at| is the index of the first
 * one. */
KILN_INLINE void load_from(KILN_GLOBAL const kiln_value *from, kiln_u32 at, kiln_u32 channel,
                           float *ret_values)
{
#if MULTIPLIER == 1
    (void)channel;
    load_vector(from, at, ret_values);
#else
    KILN_UNROLL
    for (int v = 0; v < KILN_VECTOR; v++)
        ret_values[v] = kiln_load(from, at + FROM_CHANNEL(channel + v) - FROM_CHANNEL(channel));
#endif
}

#define PLANE_TAPS (KILN_FILTER_H * KILN_FILTER_W)
#define IS_BLOCK (KILN_ROWS * KILN_COLUMNS > 1)

#if IS_BLOCK

KILN_INLINE void add_plane(KILN_GLOBAL const kiln_value *from, kiln_u32 plane, struct block b,
                           float weight[PLANE_TAPS][KILN_VECTOR],
                           float sum[KILN_ROWS][KILN_COLUMNS][KILN_VECTOR])
{
    KILN_UNROLL
    for (int i = 0; i < WINDOW(H, KILN_ROWS); i++) {
        int h = FIRST(H, b.row, KILN_ROWS) + i;
        KILN_UNROLL
        for (int j = 0; j < WINDOW(W, KILN_COLUMNS); j++) {
            int column = FIRST(W, b.column, KILN_COLUMNS) + j;
            float value[KILN_VECTOR] = { 0 };
            if (h >= 0 && h < FROM_(H) && column >= 0 && column < FROM_(W))
                load_from(from, plane + (kiln_u32)(h * FROM_STRIDE(H) + column * FROM_STRIDE(W)),
                          b.channel, value);
            KILN_UNROLL
            for (int at = 0; at < KILN_ROWS * KILN_COLUMNS; at++) {
                int row_distance = DISTANCE(H, i, at / KILN_COLUMNS);
                int column_distance = DISTANCE(W, j, at % KILN_COLUMNS);
                if (IS_TAP(H, row_distance) && IS_TAP(W, column_distance)) {
                    int tap = row_distance / KILN_DILATION_H * KILN_FILTER_W +
                              column_distance / KILN_DILATION_W;
                    KILN_UNROLL
                    for (int v = 0; v < KILN_VECTOR; v++)
                        sum[at / KILN_COLUMNS][at % KILN_COLUMNS][v] += value[v] * weight[tap][v];
                }
            }
        }
    }
}

#endif

/* Staged in shared memory if they fit, with neighbouring channels side by side. */
#define WEIGHTS (FILTERS * TAPS)
/* This padding avoids most bank conflicts. */
#define PITCH (GROUP_CHANNELS == 1 ? 1 : GROUP_CHANNELS + KILN_VECTOR)
#define IS_STAGED (WEIGHTS * PITCH <= 8192)
#if IS_STAGED
#define WEIGHT(at, v) staged[(at)*PITCH + LANE * KILN_VECTOR + (v)]
#else
#define WEIGHT(at, v) kiln_load(w, (b.channel + (v)) * WEIGHTS + (at))
#endif

#if KILN_DIRECTION == 0
KILN_KERNEL(KILN_GROUP_SIZE)
void conv_depthwise_forward(KILN_GLOBAL const kiln_value *KILN_RESTRICT from,
                            KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                            KILN_GLOBAL kiln_value *KILN_RESTRICT to, kiln_u32 n)
#else
KILN_KERNEL(KILN_GROUP_SIZE)
void conv_depthwise_backward_data(KILN_GLOBAL kiln_value *KILN_RESTRICT to,
                                  KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                                  KILN_GLOBAL const kiln_value *KILN_RESTRICT from, kiln_u32 n)
#endif
{
    struct block b = block_of_item(n);
    float sum[KILN_ROWS][KILN_COLUMNS][KILN_VECTOR] = { { { 0 } } };
#if IS_STAGED
    KILN_SHARED float staged[WEIGHTS * PITCH];
    kiln_u32 first = b.channel - LANE * KILN_VECTOR;
    for (kiln_u32 i = kiln_item(); i < WEIGHTS * GROUP_CHANNELS; i += KILN_GROUP_SIZE)
        if (first + i / WEIGHTS < TO_CHANNELS)
            staged[i % WEIGHTS * PITCH + i / WEIGHTS] = kiln_load(w, first * WEIGHTS + i);
    kiln_barrier();
#endif
    if (b.n >= n || b.channel >= TO_CHANNELS)
        return;

    for (int part = 0; part < FILTERS * KILN_FILTER_D; part++) {
        int filter = part / KILN_FILTER_D;
        int d = FROM_AT(D, b.d, part % KILN_FILTER_D);
        if (!IS_FROM(D, d))
            continue;
        kiln_u32 plane = b.n * FROM_STRIDE(N) +
                         (FROM_CHANNEL(b.channel) + filter) * FROM_CHANNEL_STRIDE +
                         (kiln_u32)d / FROM_TIMES(D) * FROM_STRIDE(D);
#if IS_BLOCK
        float weight[PLANE_TAPS][KILN_VECTOR];
        KILN_UNROLL
        for (int i = 0; i < PLANE_TAPS * KILN_VECTOR; i++)
            weight[i / KILN_VECTOR][i % KILN_VECTOR] =
                WEIGHT(part * PLANE_TAPS + i / KILN_VECTOR, i % KILN_VECTOR);
        add_plane(from, plane, b, weight, sum);
#else
        for (int tap = 0; tap < PLANE_TAPS; tap++) {
            int h = FROM_AT(H, b.row, tap / KILN_FILTER_W);
            int column = FROM_AT(W, b.column, tap % KILN_FILTER_W);
            float value[KILN_VECTOR];
            if (!IS_FROM(H, h) || !IS_FROM(W, column))
                continue;
            load_from(from,
                      plane + (kiln_u32)h / FROM_TIMES(H) * FROM_STRIDE(H) +
                          (kiln_u32)column / FROM_TIMES(W) * FROM_STRIDE(W),
                      b.channel, value);
            KILN_UNROLL
            for (int v = 0; v < KILN_VECTOR; v++)
                sum[0][0][v] += value[v] * WEIGHT(part * PLANE_TAPS + tap, v);
        }
#endif
    }

    kiln_u32 image = b.n * TO_STRIDE(N) + b.channel * TO_CHANNEL_STRIDE + b.d * TO_STRIDE(D);
    KILN_UNROLL
    for (int at = 0; at < KILN_ROWS * KILN_COLUMNS; at++) {
        kiln_u32 h = b.row * KILN_ROWS + at / KILN_COLUMNS;
        kiln_u32 column = b.column * KILN_COLUMNS + at % KILN_COLUMNS;
        if (h < TO_(H) && column < TO_(W))
            store_vector(to, image + h * TO_STRIDE(H) + column * TO_STRIDE(W),
                         sum[at / KILN_COLUMNS][at % KILN_COLUMNS]);
    }
}

#else

#define STRIPS CEIL_DIV(KILN_OUT_W, KILN_COLUMNS)
#define IMAGE_STRIPS (KILN_OUT_D * KILN_OUT_H * STRIPS)
#define CHANNEL_BLOCKS CEIL_DIV(KILN_K, GROUP_CHANNELS)
#define TAP_ROW_BLOCKS CEIL_DIV(KILN_FILTER_D *KILN_FILTER_H, KILN_TAP_ROWS)
#define TAP_COLUMN_BLOCKS CEIL_DIV(KILN_FILTER_W, KILN_TAP_COLUMNS)

/* A strip needs MEETS pixels of a row of x.  Pixel i of them is at offset MET_AT(i).  Column c and
 * tap t use pixel MET(c, t). */
#if KILN_COLUMNS == 1
#define MEETS KILN_TAP_COLUMNS
#define MET_AT(i) ((i)*KILN_DILATION_W)
#define MET(c, t) (t)
#else
#define MEETS ((KILN_COLUMNS - 1) * KILN_STRIDE_W + (KILN_TAP_COLUMNS - 1) * KILN_DILATION_W + 1)
#define MET_AT(i) (i)
#define MET(c, t) ((c)*KILN_STRIDE_W + (t)*KILN_DILATION_W)
#endif

struct share {
    kiln_u32 channel, split, tap_row, tap_column;
};

KILN_DEVICE struct share share_of_group(void)
{
    struct share s;
    kiln_u32 group = kiln_group();
    s.channel = group % CHANNEL_BLOCKS * GROUP_CHANNELS + LANE * KILN_VECTOR;
    group /= CHANNEL_BLOCKS;
    s.tap_column = group % TAP_COLUMN_BLOCKS * KILN_TAP_COLUMNS;
    group /= TAP_COLUMN_BLOCKS;
    s.tap_row = group % TAP_ROW_BLOCKS * KILN_TAP_ROWS;
    s.split = group / TAP_ROW_BLOCKS;
    return s;
}

KILN_INLINE void load_x(KILN_GLOBAL const kiln_value *x, kiln_u32 at, kiln_u32 k, float *ret_values)
{
#if MULTIPLIER == 1
    (void)k;
    load_vector(x, at, ret_values);
#else
    KILN_UNROLL
    for (int v = 0; v < KILN_VECTOR; v++)
        ret_values[v] = kiln_load(x, at + (k + v) / MULTIPLIER - k / MULTIPLIER);
#endif
}

/* Adds the gradients dy of one strip times the pixels of x that each tap reads. */
KILN_INLINE void add_strip(KILN_GLOBAL const kiln_value *x, KILN_GLOBAL const kiln_value *y,
                           struct share s, kiln_u32 strip,
                           float sum[KILN_TAP_ROWS][KILN_TAP_COLUMNS][KILN_VECTOR])
{
    kiln_u32 ow = strip % STRIPS * KILN_COLUMNS, line = strip / STRIPS;
    kiln_u32 oh = line % KILN_OUT_H, od = line / KILN_OUT_H % KILN_OUT_D;
    kiln_u32 n = line / (KILN_OUT_H * KILN_OUT_D);
    kiln_u32 at = n * Y_N + s.channel * Y_K + od * Y_D + oh * Y_H + ow * Y_W;
    float dy[KILN_COLUMNS][KILN_VECTOR] = { { 0 } };
    KILN_UNROLL
    for (int c = 0; c < KILN_COLUMNS; c++)
        if (ow + c < KILN_OUT_W)
            load_vector(y, at + c * Y_W, dy[c]);

    KILN_UNROLL
    for (int r = 0; r < KILN_TAP_ROWS; r++) {
        int fd = (int)(s.tap_row + r) / KILN_FILTER_H, fh = (int)(s.tap_row + r) % KILN_FILTER_H;
        int d = (int)od * KILN_STRIDE_D + fd * KILN_DILATION_D - KILN_PAD_D;
        int h = (int)oh * KILN_STRIDE_H + fh * KILN_DILATION_H - KILN_PAD_H;
        int left = (int)ow * KILN_STRIDE_W + (int)s.tap_column * KILN_DILATION_W - KILN_PAD_W;
        int is_in = fd < KILN_FILTER_D && d >= 0 && d < KILN_IN_D && h >= 0 && h < KILN_IN_H;
        kiln_u32 row = n * X_N + s.channel / MULTIPLIER * X_C + (kiln_u32)(d * X_D + h * X_H);
        float met[MEETS][KILN_VECTOR] = { { 0 } };
        kiln_as_one(row);
        KILN_UNROLL
        for (int i = 0; i < MEETS; i++) {
            int column = left + MET_AT(i);
            if (is_in && column >= 0 && column < KILN_IN_W)
                load_x(x, row + (kiln_u32)(column * X_W), s.channel, met[i]);
        }
        KILN_UNROLL
        for (int c = 0; c < KILN_COLUMNS; c++)
            KILN_UNROLL
        for (int t = 0; t < KILN_TAP_COLUMNS; t++)
            KILN_UNROLL
        for (int v = 0; v < KILN_VECTOR; v++)
            sum[r][t][v] += dy[c][v] * met[MET(c, t)][v];
    }
}

#define SUMS (KILN_TAP_ROWS * KILN_TAP_COLUMNS * KILN_VECTOR)
/* Sums that the work group adds up over its PLACES in one pass, in at most 16 KiB of shared
 * memory. */
#define ROUND_MAX (4096 / KILN_GROUP_SIZE)
#define ROUND (SUMS < ROUND_MAX ? SUMS : ROUND_MAX)

#if KILN_IS_SPLIT
#define OUTPUT float
#else
#define OUTPUT kiln_value
#endif

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_depthwise_backward_weights(KILN_GLOBAL const kiln_value *KILN_RESTRICT x,
                                     KILN_GLOBAL const kiln_value *KILN_RESTRICT y,
                                     KILN_GLOBAL OUTPUT *KILN_RESTRICT w, kiln_u32 n,
                                     kiln_u32 splits)
{
    KILN_SHARED float shared[ROUND * KILN_GROUP_SIZE];
    float sum[KILN_TAP_ROWS][KILN_TAP_COLUMNS][KILN_VECTOR] = { { { 0 } } };
    struct share s = share_of_group();
    kiln_u32 strips = n * IMAGE_STRIPS, a_split = CEIL_DIV(strips, splits);
    kiln_u32 end = (s.split + 1) * a_split;
    if (s.channel < KILN_K)
        for (kiln_u32 i = s.split * a_split + PLACE; i < end && i < strips; i += PLACES)
            add_strip(x, y, s, i, sum);

    KILN_UNROLL
    for (int first = 0; first < SUMS; first += ROUND) {
        kiln_barrier();
        KILN_UNROLL
        for (int i = 0; i < ROUND && first + i < SUMS; i++)
            shared[i * KILN_GROUP_SIZE + kiln_item()] = (&sum[0][0][0])[first + i];
        for (kiln_u32 reach = KILN_GROUP_SIZE / 2; reach >= KILN_LANES; reach /= 2) {
            kiln_barrier();
            for (kiln_u32 i = kiln_item(); i < ROUND * reach; i += KILN_GROUP_SIZE) {
                kiln_u32 at = i / reach * KILN_GROUP_SIZE + i % reach;
                shared[at] += shared[at + reach];
            }
        }
        kiln_barrier();
        for (kiln_u32 i = kiln_item(); i < ROUND * KILN_LANES; i += KILN_GROUP_SIZE) {
            kiln_u32 which = first + i / KILN_LANES, lane = i % KILN_LANES;
            kiln_u32 channel = s.channel + (lane - LANE) * KILN_VECTOR + which % KILN_VECTOR;
            kiln_u32 column = s.tap_column + which / KILN_VECTOR % KILN_TAP_COLUMNS;
            kiln_u32 row = s.tap_row + which / (KILN_VECTOR * KILN_TAP_COLUMNS);
            if (which >= SUMS || channel >= KILN_K || column >= KILN_FILTER_W ||
                row >= KILN_FILTER_D * KILN_FILTER_H)
                continue;
            kiln_u32 to = channel * TAPS + row * KILN_FILTER_W + column;
            float value = shared[i / KILN_LANES * KILN_GROUP_SIZE + lane];
#if KILN_IS_SPLIT
            w[s.split * (KILN_K * TAPS) + to] = value;
#else
            kiln_store(w, to, value);
#endif
        }
    }
}

#endif
