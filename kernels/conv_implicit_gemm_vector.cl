/* SPDX-License-Identifier: MIT */
/*
 * ConvImplicitGemm's vector path: a matrix product whose matrices are never stored, on the vector
 * units, with fp32 sums.  engine/solver/conv_implicit_gemm_vector.c explains the blocking.
 *
 *   KILN_DIRECTION   rows (M)   columns (N)          summed over (K)
 *   0 forward        k          pixels of y          channels of x and taps
 *   1 backward data  c          pixels of x          channels of y and taps
 *   2 backward w     k          channels of x, taps  pixels of y
 *
 * A work group computes KILN_TILE_M x KILN_TILE_N results of one group of the convolution.  An item
 * computes KILN_ITEM_M x KILN_ITEM_N of them, in pieces of four.  A step adds KILN_TILE_K products.
 * Operand A (rows: weights, or y) and operand B (columns) are copied to one of KILN_STAGES buffers
 * of shared memory while another buffer is multiplied.
 *
 * Forward and backward data: a step is one tap and KILN_TILE_K channels.  The taps of a block of
 * channels are summed before the next block of channels.  With KILN_FLAT (forward, few channels),
 * the sum runs over channels and taps in the order of a row of w, with a table of their positions.
 *
 * Backward data with strides: the pixels of x are divided into residue classes modulo the stride,
 * and only the taps that reach a class are summed.  With a 1x1 filter and no padding, the columns
 * are y's pixels; each also writes zeros to the rest of its block of x.
 *
 * Backward data of patches (the filter is as large as the stride and tiles x): a row is a channel
 * and a tap, in w's order, and the columns are y's pixels.  Every result belongs to a different
 * pixel of x.
 *
 * Every size but the batch is defined by -D: KILN_TYPE KILN_C KILN_K KILN_GROUPS, and for each
 * of _D _H _W KILN_IN KILN_OUT KILN_FILTER KILN_PAD KILN_STRIDE KILN_DILATION, and
 *   KILN_X_LAST KILN_W_LAST KILN_Y_LAST   1 where that tensor's channels come last
 *   KILN_TAP_STRIDE_D _H _W   backward data: distance between taps that reach the same pixel:
 *                      stride / gcd(stride, dilation)
 *   KILN_TILE_M _N _K, KILN_ITEM_M _N, KILN_STAGES, KILN_FLAT   see above
 *   KILN_ASYNC         1: copies to shared memory that bypass registers (fp32, NVIDIA)
 *   KILN_TF32          1: products on NVIDIA's matrix cores, with fp32 operands rounded to TF32
 *   KILN_PREPARED      1: A is w rearranged by conv_implicit_gemm_vector_prepare
 *   KILN_SPLIT         1: the sum is cut into |splits| parts; the output is a fp32 workspace with
 *                      |splits| copies of the result, for conv_split_reduce
 *   KILN_PREPARE       1: compile conv_implicit_gemm_vector_prepare instead, which needs only the
 *                      sizes of w, KILN_TILE_K and KILN_FLAT
 * Memory is 16-byte aligned.  The filter's sizes over D, H and W add up to less than 32, except in
 * backward weights, in backward data of patches, and in forward without padding.
 */
#ifndef KILN_TF32
#define KILN_TF32 0
#endif
#if KILN_TF32
#include "kiln/matrix_cores.h"
#endif
#include "kiln/prelude.h"

/* OpenCL emulates matrix cores and has no asynchronous copies. */
#if KILN_TF32 && !defined(KILN_HAS_ASYNC_COPY)
#undef KILN_ASYNC
#define KILN_ASYNC 0
#endif

#define LESSER(a, b) ((a) < (b) ? (a) : (b))
#define GREATER(a, b) ((a) > (b) ? (a) : (b))
#define BLOCKS(a, b) (((a) + (b)-1) / (b))

#define GROUP_C (KILN_C / KILN_GROUPS)
#define GROUP_K (KILN_K / KILN_GROUPS)
#define TAPS (KILN_FILTER_D * KILN_FILTER_H * KILN_FILTER_W)
#define IN_PLANE (KILN_IN_D * KILN_IN_H * KILN_IN_W)
#define OUT_PLANE (KILN_OUT_D * KILN_OUT_H * KILN_OUT_W)
#define UNIT_STRIDE (KILN_STRIDE_D == 1 && KILN_STRIDE_H == 1 && KILN_STRIDE_W == 1)
#define UNPADDED (KILN_PAD_D == 0 && KILN_PAD_H == 0 && KILN_PAD_W == 0)
#define POINTWISE (TAPS == 1 && UNPADDED)
#if KILN_PREPARE
#define PATCHES 0 /* the weights of patches are never rearranged */
#else
#define PATCHES                                                                              \
    (KILN_DIRECTION == 1 && TAPS > 1 && UNPADDED && KILN_FILTER_D == KILN_STRIDE_D &&        \
     KILN_FILTER_H == KILN_STRIDE_H && KILN_FILTER_W == KILN_STRIDE_W &&                     \
     KILN_DILATION_D == 1 && KILN_DILATION_H == 1 && KILN_DILATION_W == 1 &&                 \
     KILN_IN_D == KILN_OUT_D * KILN_STRIDE_D && KILN_IN_H == KILN_OUT_H * KILN_STRIDE_H &&   \
     KILN_IN_W == KILN_OUT_W * KILN_STRIDE_W)
#endif
#define SAME_PLANE (POINTWISE && UNIT_STRIDE) /* x and y have the same pixels */

/* Distances between neighbours, in elements. */
#define X_W (KILN_X_LAST ? KILN_C : 1)
#define X_H (X_W * KILN_IN_W)
#define X_D (X_H * KILN_IN_H)
#define X_C (KILN_X_LAST ? 1 : IN_PLANE)
#define X_N (KILN_C * IN_PLANE)
#define W_TAP (KILN_W_LAST ? GROUP_C : 1)
#define W_C (KILN_W_LAST ? 1 : TAPS)
#define W_K (GROUP_C * TAPS)
#define Y_W (KILN_Y_LAST ? KILN_K : 1)
#define Y_H (Y_W * KILN_OUT_W)
#define Y_D (Y_H * KILN_OUT_H)
#define Y_K (KILN_Y_LAST ? 1 : OUT_PLANE)
#define Y_N (KILN_K * OUT_PLANE)

#define M_COUNT (PATCHES ? GROUP_C * TAPS : KILN_DIRECTION == 1 ? GROUP_C : GROUP_K)
#define M_TILES BLOCKS(M_COUNT, KILN_TILE_M)
/* Forward and backward data sum over this number of channels. */
#define CHANNELS (KILN_DIRECTION == 0 ? GROUP_C : GROUP_K)
#define FLAT_COUNT (GROUP_C * TAPS)

/* The layout is [group][tap][channel][row].  Rows are padded with zeros to a multiple of 4, and
 * channels to a multiple of KILN_TILE_K.  With KILN_FLAT, there is one tap, with FLAT_COUNT
 * channels. */
#define PREPARED_TAPS (KILN_FLAT ? 1 : TAPS)
#define PREPARED_ROWS (BLOCKS(M_COUNT, 4) * 4)
#define PREPARED_CHANNELS (BLOCKS(KILN_FLAT ? FLAT_COUNT : CHANNELS, KILN_TILE_K) * KILN_TILE_K)

#if KILN_PREPARE

#define ITEMS 256
#define ROWS 32 /* rows of a work group's block */
#define DEPTH LESSER(GREATER(32 / TAPS, 1), 8)
#define ROW_BLOCKS BLOCKS(PREPARED_ROWS, ROWS)
#define DEPTH_BLOCKS BLOCKS(KILN_FLAT ? GROUP_C : PREPARED_CHANNELS, DEPTH)
/* w has RUNS runs of RUN channels with all their taps in memory.  Forward, each run belongs to one
 * row. */
#define RUN (KILN_DIRECTION == 0 ? DEPTH : ROWS)
#define RUNS (KILN_DIRECTION == 0 ? ROWS : DEPTH)

KILN_KERNEL(ITEMS)
void conv_implicit_gemm_vector_prepare(KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                                       KILN_GLOBAL kiln_value *KILN_RESTRICT prepared)
{
    KILN_SHARED float block[RUNS * (RUN * TAPS + 1)];
    kiln_u32 id = kiln_group();
    kiln_u32 row = id % ROW_BLOCKS * ROWS;
    kiln_u32 channel = id / ROW_BLOCKS % DEPTH_BLOCKS * DEPTH;
    kiln_u32 group = id / ROW_BLOCKS / DEPTH_BLOCKS;
    kiln_u32 k0 = KILN_DIRECTION == 0 ? row : channel, c0 = KILN_DIRECTION == 0 ? channel : row;

    for (kiln_u32 i = kiln_item(); i < RUNS * RUN * TAPS; i += ITEMS) {
        kiln_u32 k = i / (RUN * TAPS), at = i % (RUN * TAPS);
        kiln_u32 c = KILN_W_LAST ? at % RUN : at / TAPS, tap = KILN_W_LAST ? at / RUN : at % TAPS;
        float value = 0;
        if (k0 + k < GROUP_K && c0 + c < GROUP_C)
            value = kiln_load(w, (group * GROUP_K + k0 + k) * W_K + (c0 + c) * W_C + tap * W_TAP);
        block[k * (RUN * TAPS + 1) + c * TAPS + tap] = value;
    }
    kiln_barrier();
    for (kiln_u32 i = kiln_item(); i < DEPTH * TAPS * ROWS; i += ITEMS) {
        kiln_u32 m = i % ROWS, tap = i / ROWS % TAPS, depth = i / (ROWS * TAPS);
        kiln_u32 k = KILN_DIRECTION == 0 ? m : depth, c = KILN_DIRECTION == 0 ? depth : m;
        kiln_u32 to = (tap * PREPARED_CHANNELS + channel + depth) * PREPARED_ROWS;
        if (KILN_FLAT)
            to = (KILN_W_LAST ? tap * GROUP_C + channel + depth : (channel + depth) * TAPS + tap) *
                 PREPARED_ROWS;
        if (row + m < PREPARED_ROWS && channel + depth < (KILN_FLAT ? GROUP_C : PREPARED_CHANNELS))
            kiln_store(prepared,
                       group * (PREPARED_TAPS * PREPARED_CHANNELS * PREPARED_ROWS) + to + row + m,
                       block[k * (RUN * TAPS + 1) + c * TAPS + tap]);
    }
#if KILN_FLAT && PREPARED_CHANNELS > FLAT_COUNT
    /* Zeros fill the padding of a flat sum, up to a whole step. */
    if (channel == 0)
        for (kiln_u32 i = kiln_item(); i < (PREPARED_CHANNELS - FLAT_COUNT) * ROWS; i += ITEMS)
            if (row + i % ROWS < PREPARED_ROWS)
                kiln_store(prepared,
                           (group * PREPARED_CHANNELS + FLAT_COUNT + i / ROWS) * PREPARED_ROWS +
                               row + i % ROWS,
                           0.0f);
#endif
}

#else

#define M_ITEMS (KILN_TILE_M / KILN_ITEM_M)
#define N_ITEMS (KILN_TILE_N / KILN_ITEM_N)
#define ITEMS (M_ITEMS * N_ITEMS)

#if KILN_DIRECTION == 2
#include "kiln/igemm_vector_weights.h"
#else
#include "kiln/igemm_vector_pixels.h"
#endif

#if KILN_SPLIT
#define OUTPUT float
#define PUT(place, index, v) ((place)[index] = (v))
#define PUT_FOUR(place, index, v) kiln_store_float4(place, index, v)
#else
#define OUTPUT kiln_value
#define PUT(place, index, v) kiln_store(place, index, v)
#define PUT_FOUR(place, index, v) kiln_store4(place, index, v)
#endif

/* An item's rows and columns are in pieces of four.  The 32 items of a warp share rows and columns,
 * so they read little shared memory.  On matrix cores, columns are in pieces of eight (see
 * multiply). */
#if KILN_TF32
#define LANES_M 8
#define COLUMN_PIECE 8
#else
#define LANES_M LESSER(M_ITEMS, GREATER(4, 32 / N_ITEMS))
#define COLUMN_PIECE 4
#endif
#define LANES_N (32 / LANES_M)
#define ITEM_COLUMN (kiln_item() / 32 % (N_ITEMS / LANES_N) * LANES_N + kiln_item() % 32 % LANES_N)
#define ITEM_ROW (kiln_item() / 32 / (N_ITEMS / LANES_N) * LANES_M + kiln_item() % 32 / LANES_N)
#define ROW_OF(i) ((i) / 4 * (M_ITEMS * 4) + (i) % 4)
#define COLUMN_OF(j) ((j) / COLUMN_PIECE * (N_ITEMS * COLUMN_PIECE) + (j) % COLUMN_PIECE)

/* Otherwise, LLVM for AMD moves all reads of an unrolled loop to its start and spills registers. */
#if defined(KILN_HIP)
#define UNROLL_STEP _Pragma("unroll 4")
#else
#define UNROLL_STEP KILN_UNROLL
#endif

#if KILN_TF32

/*
 * One instruction multiplies a block of 16 x 8 results, with 8 products each.  With g = lane / 4
 * and q = lane % 4, it takes from a lane rows g and g + 8 of A, and column g of B, at steps q and q
 * + 4.  It returns rows g and g + 8 of columns 2 * q and 2 * q + 1.
 *
 * The kernel may choose which row and column of the tile each of these numbers means.  Each piece
 * of 32 rows is two blocks: rows g and g + 8 of block h are rows 4 * g + 2 * h and 4 * g + 2 * h +
 * 1 of the piece.  Each piece of 32 columns is four blocks: column n of block e is column 4 * n + e
 * of the piece.  So a lane reads four neighbours at a time.  It gets the sums of the four
 * neighbouring rows from 4 * g on, and of the eight neighbouring columns from 8 * q on.
 */
#define LANE (kiln_item() % 32)
#define FIRST_ROW (LANE % 4 * A_ROW + ITEM_ROW * 4)
#define FIRST_COLUMN (LANE % 4 * B_ROW + (ITEM_COLUMN - LANE % 4) * 8 + LANE / 4 * 4)

/* Loads four neighbours at a step and at the fourth step after it, and rounds them to TF32. */
KILN_INLINE void take_fours(KILN_LOCAL const float *from, kiln_u32 row, kiln_u32 ret[4][2])
{
    float four[4], later[4];
    kiln_get_shared4(from, four);
    kiln_get_shared4(from + 4 * row, later);
    KILN_UNROLL
    for (int i = 0; i < 4; i++) {
        ret[i][0] = kiln_tf32(four[i]);
        ret[i][1] = kiln_tf32(later[i]);
    }
}

KILN_INLINE void multiply(KILN_LOCAL const float *a, KILN_LOCAL const float *b, float *sum,
                          kiln_tiles tiles)
{
    KILN_UNROLLED
    for (int k = 0; k < KILN_TILE_K; k += 8) {
        kiln_u32 rows[KILN_ITEM_M][2], columns[KILN_ITEM_N / 2][2];
        KILN_UNROLLED
        for (int i = 0; i < KILN_ITEM_M; i += 4)
            take_fours(a + k * A_ROW + ROW_OF(i), A_ROW, rows + i);
        KILN_UNROLLED
        for (int j = 0; j < KILN_ITEM_N; j += 8)
            take_fours(b + k * B_ROW + COLUMN_OF(j), B_ROW, columns + j / 2);
        KILN_UNROLLED
        for (int i = 0; i < KILN_ITEM_M; i += 2) {
            kiln_u32 left[4] = { rows[i][0], rows[i + 1][0], rows[i][1], rows[i + 1][1] };
            KILN_UNROLLED
            for (int j = 0; j < KILN_ITEM_N / 2; j++) {
                float *low = sum + i * KILN_ITEM_N + j / 4 * 8 + j % 4, *high = low + KILN_ITEM_N;
                float d[4] = { low[0], low[4], high[0], high[4] };
                kiln_multiply16x8x8(d, left, columns[j], tiles);
                low[0] = d[0];
                low[4] = d[1];
                high[0] = d[2];
                high[4] = d[3];
            }
        }
    }
}

#define MULTIPLY(a, b, sum) multiply(a, b, sum, tiles)

#else

#define FIRST_ROW (ITEM_ROW * 4)
#define FIRST_COLUMN (ITEM_COLUMN * 4)

KILN_INLINE void multiply(KILN_LOCAL const float *a, KILN_LOCAL const float *b, float *sum)
{
    UNROLL_STEP
    for (int k = 0; k < KILN_TILE_K; k++) {
        float rows[KILN_ITEM_M], columns[KILN_ITEM_N];
        KILN_UNROLL
        for (int i = 0; i < KILN_ITEM_M; i += 4)
            kiln_get_shared4(a + k * A_ROW + ROW_OF(i), rows + i);
        KILN_UNROLL
        for (int j = 0; j < KILN_ITEM_N; j += 4)
            kiln_get_shared4(b + k * B_ROW + COLUMN_OF(j), columns + j);
        KILN_UNROLL
        for (int i = 0; i < KILN_ITEM_M; i++) {
            KILN_UNROLL
            for (int j = 0; j < KILN_ITEM_N; j++)
                sum[i * KILN_ITEM_N + j] += rows[i] * columns[j];
        }
    }
}

#define MULTIPLY(a, b, sum) multiply(a, b, sum)

#endif

/* Pointwise backward data with strides: a pixel of y determines a whole block of x, which is one
 * value and zeros.  If blocks are two pixels wide, two blocks are stored at once, otherwise one row
 * of a block. */
#define BLOCKED (KILN_DIRECTION == 1 && POINTWISE && !UNIT_STRIDE)
#define BLOCKS_TWO (BLOCKED && !KILN_X_LAST && KILN_STRIDE_W == 2 && KILN_IN_W % 4 == 0)
#define BLOCK_ROW \
    (!KILN_X_LAST && KILN_STRIDE_W == 2 && KILN_IN_W % 2 == 0 && (KILN_SPLIT || KILN_TYPE == 0))

#if KILN_DIRECTION == 1

/* Pixel |at| of a block that begins at |first| may be outside the image, unless the strides divide
 * the image's size. */
#define IS_BEYOND(first, at, stride, size) \
    ((size) % (stride) != 0 && (first) * (stride) + (at) >= (size))

/* Stores first |four|, then zeros, from |to| on. */
KILN_INLINE void put_block_row(KILN_GLOBAL OUTPUT *place, const struct pixel *p, kiln_u32 to,
                               kiln_float4 four)
{
    KILN_UNROLL
    for (kiln_u32 w = 0; w < KILN_STRIDE_W; w++) {
        if (IS_BEYOND(p->w, w, KILN_STRIDE_W, KILN_IN_W))
            continue;
        if (ROWS_FOUR)
            PUT_FOUR(place, to + w * X_W, w ? kiln_make4(0.0f, 0.0f, 0.0f, 0.0f) : four);
        else
            PUT(place, to + w * X_W, w ? 0.0f : four.x);
    }
}

/* Stores the block of x that |column| determines.  If ROWS_FOUR, |four| has four rows of this
 * column.  Otherwise, .x is the value of the column and, with BLOCKS_TWO, .y that of the next
 * column. */
KILN_INLINE void put_block(KILN_GLOBAL OUTPUT *place, const struct tile *tile, kiln_u32 column,
                           kiln_u32 at, kiln_float4 four)
{
    struct pixel p = pixel_at(tile, column);
    KILN_UNROLL
    for (kiln_u32 d = 0; d < KILN_STRIDE_D; d++) {
        KILN_UNROLL
        for (kiln_u32 h = 0; h < KILN_STRIDE_H; h++) {
            kiln_u32 to = at + d * X_D + h * X_H;
            kiln_float4 row = d + h ? kiln_make4(0.0f, 0.0f, 0.0f, 0.0f) : four;
            if (IS_BEYOND(p.d, d, KILN_STRIDE_D, KILN_IN_D) ||
                IS_BEYOND(p.h, h, KILN_STRIDE_H, KILN_IN_H))
                continue;
            if (BLOCKS_TWO) {
                PUT_FOUR(place, to, kiln_make4(row.x, 0.0f, row.y, 0.0f));
                continue;
            }
#if KILN_SPLIT || KILN_TYPE == 0
            if (BLOCK_ROW) {
                kiln_store_float2(place, to, row.x, 0.0f);
                continue;
            }
#endif
            put_block_row(place, &p, to, row);
        }
    }
}

#endif

#if KILN_DIRECTION == 1

/* A column's patch begins at |place|. */
KILN_INLINE void put_patch(KILN_GLOBAL OUTPUT *place, kiln_u32 row, const float *v)
{
    KILN_UNROLL
    for (kiln_u32 i = 0; i < KILN_ITEM_M; i += PATCH_FOUR ? 4 : 1) {
        kiln_u32 m = row + ROW_OF(i);
        if (M_COUNT % KILN_TILE_M != 0 && m >= M_COUNT)
            continue;
        if (PATCH_FOUR)
            PUT_FOUR(place, patch_place(m),
                     kiln_make4(v[i * KILN_ITEM_N], v[(i + 1) * KILN_ITEM_N],
                                v[(i + 2) * KILN_ITEM_N], v[(i + 3) * KILN_ITEM_N]));
        else
            PUT(place, patch_place(m), v[i * KILN_ITEM_N]);
    }
}

#endif

KILN_INLINE void put_results(KILN_GLOBAL OUTPUT *output, const struct tile *tile, const float *sum)
{
    kiln_u32 row = tile->m + ITEM_ROW * 4, first = tile->n + ITEM_COLUMN * COLUMN_PIECE;
    KILN_UNROLL
    for (int j = 0; j < KILN_ITEM_N; j += COLUMNS_FOUR ? 4 : BLOCKS_TWO ? 2 : 1) {
        kiln_u32 column = first + COLUMN_OF(j);
        if (column >= tile->columns)
            continue;
        /* All stores use constant offsets from this one address. */
        KILN_GLOBAL OUTPUT *place = output + (output_place(tile, column) + row * ROW_STEP);
#if KILN_DIRECTION == 1
        if (PATCHES)
            put_patch(output + output_place(tile, column), row, sum + j);
#endif
        KILN_UNROLL
        for (int i = PATCHES ? KILN_ITEM_M : 0; i < KILN_ITEM_M; i += ROWS_FOUR ? 4 : 1) {
            const float *v = sum + i * KILN_ITEM_N + j;
            kiln_u32 to = ROW_OF(i) * ROW_STEP;
            if (M_COUNT % KILN_TILE_M != 0 && row + ROW_OF(i) >= M_COUNT)
                continue;
#if KILN_DIRECTION == 1
            if (BLOCKED) {
                put_block(place, tile, column, to,
                          ROWS_FOUR ? kiln_make4(v[0], v[KILN_ITEM_N], v[2 * KILN_ITEM_N],
                                                 v[3 * KILN_ITEM_N])
                                    : kiln_make4(v[0], BLOCKS_TWO ? v[1] : 0.0f, 0.0f, 0.0f));
                continue;
            }
#endif
            if (ROWS_FOUR)
                PUT_FOUR(place, to,
                         kiln_make4(v[0], v[KILN_ITEM_N], v[2 * KILN_ITEM_N], v[3 * KILN_ITEM_N]));
            else if (COLUMNS_FOUR)
                PUT_FOUR(place, to, kiln_make4(v[0], v[1], v[2], v[3]));
            else
                PUT(place, to, v[0]);
        }
    }
}

#if KILN_DIRECTION == 0
#define ENTRY conv_implicit_gemm_vector_forward
#elif KILN_DIRECTION == 1
#define ENTRY conv_implicit_gemm_vector_backward_data
#else
#define ENTRY conv_implicit_gemm_vector_backward_weights
#endif

#if KILN_FLAT
#define FETCH_ALL(stage) fetch_all(&f, &at, a, b, stage, places)
#else
#define FETCH_ALL(stage) fetch_all(&f, &tile, &at, n, a, b, stage)
#endif

/* |column_tiles| counts the tiles of all classes.  If |rows_first| is 1, neighbouring work groups
 * have different rows. */
KILN_KERNEL(ITEMS)
void ENTRY(KILN_GLOBAL const kiln_value *KILN_RESTRICT a,
           KILN_GLOBAL const kiln_value *KILN_RESTRICT b, KILN_GLOBAL OUTPUT *KILN_RESTRICT output,
           kiln_u32 n, kiln_u32 column_tiles, kiln_u32 splits, kiln_u32 rows_first)
{
#if KILN_TF32
    KILN_TILES(tiles);
    KILN_LOCAL float *const a_stages = KILN_TILES_FLOATS(tiles);
    KILN_LOCAL float *const b_stages = a_stages + KILN_STAGES * A_STAGE;
#else
    KILN_SHARED16 float a_stages[KILN_STAGES * A_STAGE];
    KILN_SHARED16 float b_stages[KILN_STAGES * B_STAGE];
#endif
#if KILN_FLAT
    KILN_SHARED struct place places[PLACES];
#endif
    struct tile tile;
    struct fetcher f;
    struct cursor at;
    float sum[KILN_ITEM_M * KILN_ITEM_N] = { 0 };
    kiln_u32 id = kiln_group(), column_tile, row_tile;

    if (rows_first) {
        row_tile = id % M_TILES;
        id /= M_TILES;
        column_tile = id % column_tiles;
        id /= column_tiles;
    } else {
        column_tile = id % column_tiles;
        id /= column_tiles;
        row_tile = id % M_TILES;
        id /= M_TILES;
    }
    tile.group = id % KILN_GROUPS;
    tile.split = id / KILN_GROUPS;
    tile.m = row_tile * KILN_TILE_M;
    locate(&tile, column_tile, n);

    kiln_u32 steps = step_count(&tile, n), first = 0;
    if (KILN_SPLIT) {
        kiln_u32 share = (steps + splits - 1) / splits;
        first = LESSER(tile.split * share, steps);
        steps = LESSER(share, steps - first);
    }

    f.a_depth = FIRST_DEPTH(A_ALONG, KILN_TILE_M, A_WIDTH);
    f.b_depth = FIRST_DEPTH(B_ALONG, KILN_TILE_N, B_WIDTH);
    f.a_to = f.a_depth * A_ROW + FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH);
    f.b_to = f.b_depth * B_ROW + FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH);
    f.a_active =
        A_ALONG ? f.a_depth < KILN_TILE_K : FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH) < KILN_TILE_M;
    f.b_active =
        B_ALONG ? f.b_depth < KILN_TILE_K : FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH) < KILN_TILE_N;
    fetcher_init(&f, &tile, n);
    if (steps > 0)
        cursor_init(&at, &tile, first);
#if KILN_FLAT
    for (kiln_u32 i = kiln_item(); i < PLACES; i += ITEMS)
        places[i] = place_at(i);
    kiln_barrier();
#endif
    KILN_LOCAL const float *rows = a_stages + FIRST_ROW;
    KILN_LOCAL const float *columns = b_stages + FIRST_COLUMN;

#if KILN_ASYNC
    f.a_to = kiln_shared_address(a_stages) + f.a_to * 4;
    f.b_to = kiln_shared_address(b_stages) + f.b_to * 4;
    KILN_UNROLL
    for (kiln_u32 i = 0; i < KILN_STAGES - 1; i++) {
        if (i < steps) {
            FETCH_ALL(i);
            cursor_advance(&at, &tile);
        }
        kiln_copy_commit();
    }
    kiln_u32 stage = 0, next = KILN_STAGES - 1;
    for (kiln_u32 i = 0; i < steps; i++) {
        kiln_copy_wait(KILN_STAGES - 2);
        kiln_barrier();
        if (i + KILN_STAGES - 1 < steps) {
            FETCH_ALL(next);
            cursor_advance(&at, &tile);
        }
        kiln_copy_commit();
        MULTIPLY(rows + stage * A_STAGE, columns + stage * B_STAGE, sum);
        stage = stage + 1 < KILN_STAGES ? stage + 1 : 0;
        next = next + 1 < KILN_STAGES ? next + 1 : 0;
    }
#else
    if (steps > 0) {
        FETCH_ALL(0);
        keep_all(&f, a_stages, b_stages);
    }
    kiln_barrier();
    kiln_u32 stage = 0;
    KILN_ROLLED
    for (kiln_u32 i = 0; i < steps; i++) {
        kiln_u32 next = KILN_STAGES == 1 ? 0 : stage ^ 1;
        if (i + 1 < steps) {
            cursor_advance(&at, &tile);
            FETCH_ALL(0);
        }
        MULTIPLY(rows + stage * A_STAGE, columns + stage * B_STAGE, sum);
        if (KILN_STAGES == 1)
            kiln_barrier();
        if (i + 1 < steps)
            keep_all(&f, a_stages + next * A_STAGE, b_stages + next * B_STAGE);
        kiln_barrier();
        stage = next;
    }
#endif
    if (KILN_SPLIT)
        output += tile.split * (kiln_u64)OUTPUT_ELEMENTS(n);
    put_results(output, &tile, sum);
}

#endif
