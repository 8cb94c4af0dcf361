/* SPDX-License-Identifier: MIT */
/*
 * The part of conv_implicit_gemm_mma.cl and conv_implicit_gemm_bulk.cl that stores the sums.
 *
 *   result_row(view, tile, row)           index in the result of a row's first element
 *   find_pixel(tile, row, plane, pixel)   index in the result of the first column's plane in a
 *                                         row's image, and the row's pixel in it.  Returns 0 if the
 *                                         row has no pixel
 *   store(to, [shared,] view, tile, sum)
 *                                         writes the work group's tile: the fp32 sums (of a slice,
 *                                         or of an fp32 result), or the rounded result
 *   store_team(to, shared, tile, sum)     writes the tile of a team (four warps) through boxes in
 *                                         shared memory, in the layout of the result's tensor map.
 *                                         |to| is the map if STORES_IN_BULK, else the result
 *
 * The including file defines RESULT_BARRIER(), a barrier of the items that store; STORES_BOXES, if
 * it needs store_team; and then STORES_IN_BULK, whether bulk copies store the boxes.
 */
#ifndef KILN_CONV_MMA_RESULT_H
#define KILN_CONV_MMA_RESULT_H

KILN_INLINE kiln_u32 result_row(const struct view *v, const struct place *tile, kiln_u32 row)
{
#if WEIGHTS
    return (tile->group * KILN_K + row) * W_ROW;
#elif FORWARD
    return row * Y_PIXEL + tile->group * KILN_K;
#else
    struct pixel p = pixel_at(v, row);
    return (((p.n * KILN_IN_D + v->d.first + p.d * v->d.step) * KILN_IN_H + v->h.first +
             p.h * v->h.step) *
                KILN_IN_W +
            v->w.first + p.w * v->w.step) *
               (KILN_C * KILN_GROUPS) +
           tile->group * KILN_C;
#endif
}

#if HAS_PLANES

/* Rows from one image to the next. */
#define IMAGE_ROWS (KILN_PLANES ? RUNS * RUN_PIXELS : RESULT_PIXELS)

KILN_INLINE int find_pixel(const struct place *tile, kiln_u32 row, kiln_u32 *ret_plane,
                           kiln_u32 *ret_pixel)
{
    *ret_plane = row / IMAGE_ROWS * (COLUMNS * RESULT_PIXELS);
    *ret_pixel = row % IMAGE_ROWS;
    return row < tile->rows && (IMAGE_ROWS == RESULT_PIXELS || *ret_pixel < RESULT_PIXELS);
}

#endif

#if HAS_PLANES && STORES_SUMS

/* Eight lanes write neighbouring pixels of a plane, which fill a sector of 32 bytes. */
KILN_INLINE void store(KILN_GLOBAL float *to, const struct view *v, const struct place *tile,
                       kiln_sums sum[BLOCKS_M][BLOCKS_N])
{
    kiln_u32 lane = kiln_item() % KILN_WAVE;
    (void)v;
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * KILN_SUMS; i += 2) {
        kiln_u32 row = tile->row + block_row(i / KILN_SUMS) + kiln_sum_row(lane, i % KILN_SUMS);
        kiln_u32 column = tile->column + first_column() + kiln_sum_column(lane, i % KILN_SUMS);
        kiln_u32 plane, pixel;
        if (!find_pixel(tile, row, &plane, &pixel))
            continue;
        KILN_GLOBAL float *place = to + plane + column * RESULT_PIXELS + pixel;
        KILN_UNROLLED
        for (int j = 0; j < BLOCKS_N; j++) {
            if (COLUMNS % KILN_TILE_N && column + j * KILN_BLOCK_N >= COLUMNS)
                continue;
            place[j * (KILN_BLOCK_N * RESULT_PIXELS)] = sum[i / KILN_SUMS][j][i % KILN_SUMS];
            place[(j * KILN_BLOCK_N + 1) * RESULT_PIXELS] =
                sum[i / KILN_SUMS][j][i % KILN_SUMS + 1];
        }
    }
}

#elif STORES_SUMS

/* Neighbouring lanes write neighbouring elements. */
KILN_INLINE void store(KILN_GLOBAL float *to, const struct view *v, const struct place *tile,
                       kiln_sums sum[BLOCKS_M][BLOCKS_N])
{
    kiln_u32 lane = kiln_item() % KILN_WAVE;
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * KILN_SUMS; i += KILN_RUN) {
        kiln_u32 row = tile->row + block_row(i / KILN_SUMS) + kiln_sum_row(lane, i % KILN_SUMS);
        kiln_u32 column = tile->column + first_column() + kiln_sum_column(lane, i % KILN_SUMS);
        if (row >= tile->rows)
            continue;
        kiln_u32 at = result_row(v, tile, row) + column;
        KILN_UNROLLED
        for (int j = 0; j < BLOCKS_N; j++) {
            if (COLUMNS % KILN_TILE_N && column + j * KILN_BLOCK_N >= COLUMNS)
                continue;
#if KILN_RUN == 1
            to[at + j * KILN_BLOCK_N] = sum[i / KILN_SUMS][j][i % KILN_SUMS];
#else
            KILN_UNROLLED
            for (int k = 0; k < KILN_RUN; k += 2)
                kiln_store_floats(to + at + j * KILN_BLOCK_N + k,
                                  sum[i / KILN_SUMS][j][i % KILN_SUMS + k],
                                  sum[i / KILN_SUMS][j][i % KILN_SUMS + k + 1]);
#endif
        }
    }
}

#else

/* Stages the tile in shared memory, so that whole rows are written with wide stores. */
KILN_INLINE void store(KILN_GLOBAL kiln_value *to, kiln_tiles shared, const struct view *v,
                       const struct place *tile, kiln_sums sum[BLOCKS_M][BLOCKS_N])
{
    kiln_u32 lane = kiln_item() % KILN_WAVE;
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * KILN_SUMS; i += KILN_RUN) {
        kiln_u32 row = block_row(i / KILN_SUMS) + kiln_sum_row(lane, i % KILN_SUMS);
        kiln_u32 column = kiln_sum_column(lane, i % KILN_SUMS);
        kiln_u32 first = (first_column() + column) / 8;
        KILN_UNROLLED
        for (int j = 0; j < BLOCKS_N; j++) {
            kiln_u32 at = row * (KILN_TILE_N * 2) +
                          turn(row, first + j * (KILN_BLOCK_N / 8), N_CHUNKS) * 16 + column % 8 * 2;
#if KILN_RUN == 1
            kiln_tiles_put2(shared, at, kiln_rounded(sum[i / KILN_SUMS][j][i % KILN_SUMS]));
#else
            KILN_UNROLLED
            for (int k = 0; k < KILN_RUN; k += 2)
                kiln_tiles_put4(shared, at + k * 2,
                                kiln_pack(sum[i / KILN_SUMS][j][i % KILN_SUMS + k],
                                          sum[i / KILN_SUMS][j][i % KILN_SUMS + k + 1]));
#endif
        }
    }
    RESULT_BARRIER();
    KILN_UNROLLED
    for (int i = 0; i < PASSES(KILN_TILE_M * N_CHUNKS); i++) {
        kiln_u32 row = (i * THREADS + kiln_item()) / N_CHUNKS;
        kiln_u32 chunk = (i * THREADS + kiln_item()) % N_CHUNKS;
        int is_there = !(COLUMNS % KILN_TILE_N) || tile->column + chunk * 8 < COLUMNS;
        if (tile->row + row < tile->rows && is_there && HAS_CHUNK(i, KILN_TILE_M * N_CHUNKS))
            kiln_tiles_store16(to + result_row(v, tile, tile->row + row) + tile->column + chunk * 8,
                               shared, row * (KILN_TILE_N * 2) + turn(row, chunk, N_CHUNKS) * 16);
    }
}

#endif

#if STORES_BOXES

#define TEAM 128 /* items of the four warps that multiply together */
#if HAS_PLANES
#define BOX_BYTES (WARP_N * 128) /* a run of pixels, in each channel of a team */
#define BOXES_N 1
#else
#define BOX_BYTES (BLOCK_ROWS * 128) /* channels of 128 bytes, in each pixel of a block */
#define BOXES_N (WARP_N / PANEL)
#endif
#define BOXES_AT (KILN_LASTING ? TILES_BYTES : 0)
#define TEAM_BARRIER() asm volatile("bar.sync %0, 128;" ::"r"(1 + kiln_item() / TEAM) : "memory")

#if HAS_PLANES

KILN_INLINE void fill_boxes(kiln_tiles shared, kiln_u32 boxes, kiln_sums sum[BLOCKS_M][BLOCKS_N])
{
    kiln_u32 lane = kiln_item() % KILN_WAVE, channel = lane / 16 * 8 + lane % 8;
    kiln_u32 chunk = kiln_item() / KILN_WAVE % 4 * 2 + lane / 8 % 2; /* a chunk of eight pixels */
    kiln_u32 at = boxes + channel * 128 + (chunk ^ lane % 8) * 16;
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * BLOCKS_N; i += 2) {
        float *a = sum[i / BLOCKS_N][i % BLOCKS_N], *b = sum[i / BLOCKS_N][i % BLOCKS_N + 1];
        kiln_u32 four[4] = { kiln_pack(a[0], a[1]), kiln_pack(a[2], a[3]), kiln_pack(b[0], b[1]),
                             kiln_pack(b[2], b[3]) };
        kiln_store8x8_turned(shared, at + i / BLOCKS_N * BOX_BYTES + i % BLOCKS_N * (8 * 128),
                             four);
    }
}

#if KILN_PLANES

KILN_INLINE void store_boxes(const kiln_tensor_map *to, kiln_tiles shared, kiln_u32 boxes,
                             const struct place *tile)
{
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M; i++) {
        kiln_u32 run = (tile->row + first_row()) / RUN_PIXELS + i;
        kiln_bulk_store3(to, shared + boxes + i * BOX_BYTES, run % RUNS * RUN_PIXELS,
                         tile->column + first_column(), run / RUNS);
    }
}

#else

/* A row of a box is stored in pieces, which are as large as the planes' alignment permits.  No
 * piece has pixels of two images. */
#if RESULT_PIXELS % 8 == 0
#define PIECE 8
#define STORE_PIECE kiln_tiles_store16
#elif RESULT_PIXELS % 2 == 0
#define PIECE 2
#define STORE_PIECE kiln_tiles_store4
#else
#define PIECE 1
#define STORE_PIECE kiln_tiles_store2
#endif
#define PIECES (BLOCK_ROWS / PIECE) /* pieces of a row of a box */

/* Neighbouring items store neighbouring pieces of a plane. */
KILN_INLINE void store_boxes(KILN_GLOBAL kiln_value *to, kiln_tiles shared, kiln_u32 boxes,
                             const struct place *tile)
{
    kiln_u32 at = kiln_item() % PIECES * PIECE, first = kiln_item() % TEAM / PIECES;
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M; i++) {
        kiln_u32 plane, pixel, row = tile->row + first_row() + i * BLOCK_ROWS + at;
        if (!find_pixel(tile, row, &plane, &pixel))
            continue;
#pragma unroll 8
        for (kiln_u32 channel = first; channel < WARP_N; channel += TEAM / PIECES) {
            kiln_u32 column = tile->column + first_column() + channel;
            kiln_u32 from = boxes + i * BOX_BYTES + channel * 128 + (at / 8 ^ (channel & 7)) * 16 +
                            at % 8 * 2;
            if (!(COLUMNS % KILN_TILE_N) || column < COLUMNS)
                STORE_PIECE(to + plane + column * RESULT_PIXELS + pixel, shared, from);
        }
    }
}

#endif

#else

/* Writes two neighbours in the layout of the box's map. */
KILN_INLINE void put_in_box(kiln_tiles shared, kiln_u32 box, kiln_u32 row, kiln_u32 column, float a,
                            float b)
{
    kiln_u32 chunk = column / KILN_CHUNK ^ (row & 7);
    kiln_u32 at = box + row * 128 + chunk * 16 + column % KILN_CHUNK * KILN_ELEMENT;
#if KILN_TYPE == 0
    kiln_tiles_put8(shared, at, a, b);
#else
    kiln_tiles_put4(shared, at, kiln_pack(a, b));
#endif
}

KILN_INLINE void fill_boxes(kiln_tiles shared, kiln_u32 boxes, kiln_sums sum[BLOCKS_M][BLOCKS_N])
{
    kiln_u32 lane = kiln_item() % KILN_WAVE;
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * KILN_SUMS; i += KILN_RUN) {
        kiln_u32 row = kiln_item() / KILN_WAVE % 4 * 16 + kiln_sum_row(lane, i % KILN_SUMS);
        kiln_u32 column = kiln_sum_column(lane, i % KILN_SUMS);
        KILN_UNROLLED
        for (int j = 0; j < BLOCKS_N; j++) {
            kiln_u32 box = boxes + (i / KILN_SUMS * BOXES_N + j * KILN_BLOCK_N / PANEL) * BOX_BYTES;
            put_in_box(shared, box, row, j * KILN_BLOCK_N % PANEL + column,
                       sum[i / KILN_SUMS][j][i % KILN_SUMS],
                       sum[i / KILN_SUMS][j][i % KILN_SUMS + 1]);
        }
    }
}

KILN_INLINE void store_boxes(const kiln_tensor_map *to, kiln_tiles shared, kiln_u32 boxes,
                             const struct place *tile)
{
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * BOXES_N; i++)
        kiln_bulk_store2(to, shared + boxes + i * BOX_BYTES,
                         tile->column + first_column() + i % BOXES_N * PANEL,
                         tile->row + first_row() + i / BOXES_N * BLOCK_ROWS);
}

#endif

#if STORES_IN_BULK
typedef const kiln_tensor_map *result_place;
#else
typedef KILN_GLOBAL RESULT *result_place;
#endif

KILN_INLINE void store_team(result_place to, kiln_tiles shared, const struct place *tile,
                            kiln_sums sum[BLOCKS_M][BLOCKS_N])
{
    kiln_u32 boxes = BOXES_AT + kiln_item() / TEAM * (BLOCKS_M * BOXES_N * BOX_BYTES);
#if STORES_IN_BULK
    if (kiln_item() % TEAM == 0)
        kiln_bulk_stores_wait();
#endif
    TEAM_BARRIER(); /* the previous tile's results have been read from shared memory */
    fill_boxes(shared, boxes, sum);
#if STORES_IN_BULK
    kiln_copies_publish();
    TEAM_BARRIER();
    if (kiln_item() % TEAM == 0) {
        store_boxes(to, shared, boxes, tile);
        kiln_bulk_stores_end();
    }
#else
    TEAM_BARRIER();
    store_boxes(to, shared, boxes, tile);
#endif
}

#endif

#endif
