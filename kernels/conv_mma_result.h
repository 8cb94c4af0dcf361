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
 *
 * The including file defines RESULT_BARRIER(), a barrier of the items that store.
 */
#ifndef KILN_CONV_MMA_RESULT_H
#define KILN_CONV_MMA_RESULT_H

/* Index in the result of the first element of a row of the product, in this group. */
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

/* Numbers of rows from one image to the next. */
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

#endif
