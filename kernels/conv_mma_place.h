/* SPDX-License-Identifier: MIT */
/*
 * The position of a tile in the product of conv_implicit_gemm_mma.cl and
 * conv_implicit_gemm_bulk.cl, which include it as "kiln/conv_mma_place.h".  It uses the options of
 * the including file.
 *
 *   place_of(number, n, slice, tile, view)
 *                           computes the position of tile |number| for a batch of |n| and slices of
 *                           |slice| steps.  Returns 0 if the tile is beyond the last row
 *   result_size(n)          elements of the result, in all groups
 *
 * With KILN_PLANES, pixels are numbered in runs of 128 bytes of one image's plane.  Some numbers in
 * the last run of an image may belong to no pixel.
 *
 * Tiles are numbered along the columns within a band of KILN_BAND rows of tiles, then by residue
 * class, band, group and slice.
 */
#ifndef KILN_CONV_MMA_PLACE_H
#define KILN_CONV_MMA_PLACE_H

#include "kiln/conv_view.h"
#include "kiln/prelude.h"

#ifndef KILN_PLANES
#define KILN_PLANES 0
#endif
#ifndef KILN_RESULT_PLANES
#define KILN_RESULT_PLANES 0
#endif

#define TAPS (KILN_FILTER_D * KILN_FILTER_H * KILN_FILTER_W)
#define Y_PIXEL (KILN_K * KILN_GROUPS)
#define W_ROW (TAPS * KILN_C)
#define OUT_PIXELS (KILN_OUT_D * KILN_OUT_H * KILN_OUT_W)
#define RESULT_PIXELS (DATA ? KILN_IN_D * KILN_IN_H * KILN_IN_W : OUT_PIXELS)
#define RUN_PIXELS (KILN_TYPE == 0 ? 32 : 64)
#define RUNS ((OUT_PIXELS + RUN_PIXELS - 1) / RUN_PIXELS) /* runs of pixels in one image */
#define RESIDUES (DATA ? KILN_STRIDE_D * KILN_STRIDE_H * KILN_STRIDE_W : 1)
#define COLUMNS (FORWARD ? KILN_K : DATA ? KILN_C : W_ROW)
#define TILES_N ((COLUMNS + KILN_TILE_N - 1) / KILN_TILE_N)

#define SOURCE_C (FORWARD ? KILN_C : KILN_K)
#define C_TILES ((SOURCE_C + KILN_TILE_K - 1) / KILN_TILE_K)

/* Whether the columns of the result are planes of pixels. */
#define HAS_PLANES (KILN_PLANES ? !WEIGHTS : KILN_RESULT_PLANES)
#define STORES_SUMS (KILN_PARTIAL || KILN_TYPE == 0)
#if STORES_SUMS
#define RESULT float
#else
#define RESULT kiln_value
#endif

struct place {
    kiln_u32 group, row, column; /* the tile's first row and column */
    kiln_u32 rows; /* rows of the tile's residue class */
    kiln_u32 residue, slice;
    kiln_u32 first, steps; /* range of the reduction, in tiles */
};

/* The left matrix has so many rows in the largest residue class. */
KILN_INLINE kiln_u32 most_rows(kiln_u32 n)
{
#if WEIGHTS
    return KILN_K;
#elif KILN_PLANES
    return n * (RUNS * RUN_PIXELS);
#elif FORWARD
    return n * OUT_PIXELS;
#else
    return n * ((KILN_IN_D + KILN_STRIDE_D - 1) / KILN_STRIDE_D) *
           ((KILN_IN_H + KILN_STRIDE_H - 1) / KILN_STRIDE_H) *
           ((KILN_IN_W + KILN_STRIDE_W - 1) / KILN_STRIDE_W);
#endif
}

KILN_INLINE kiln_u32 result_size(kiln_u32 n)
{
#if WEIGHTS
    return KILN_GROUPS * KILN_K * W_ROW;
#elif FORWARD
    return n * OUT_PIXELS * Y_PIXEL;
#else
    return n * RESULT_PIXELS * (KILN_C * KILN_GROUPS);
#endif
}

KILN_INLINE int place_of(kiln_u32 number, kiln_u32 n, kiln_u32 slice, struct place *tile,
                         struct view *v)
{
    kiln_u32 bands = (most_rows(n) + KILN_TILE_M * KILN_BAND - 1) / (KILN_TILE_M * KILN_BAND);
    kiln_u32 row_in_band = number % KILN_BAND;
    number /= KILN_BAND;
    tile->column = number % TILES_N * KILN_TILE_N;
    number /= TILES_N;
    tile->residue = number % RESIDUES;
    number /= RESIDUES;
    tile->row = (number % bands * KILN_BAND + row_in_band) * KILN_TILE_M;
    number /= bands;
    tile->group = number % KILN_GROUPS;
    tile->slice = number / KILN_GROUPS;

    *v = view_of(tile->residue);
#if WEIGHTS
    kiln_u32 all_steps = KILN_PLANES ? n * RUNS : (n * OUT_PIXELS + KILN_TILE_K - 1) / KILN_TILE_K;
    tile->rows = KILN_K;
#else
    kiln_u32 all_steps = v->d.taps * v->h.taps * v->w.taps * C_TILES;
    tile->rows = KILN_PLANES ? most_rows(n) : n * v->d.pixels * v->h.pixels * v->w.pixels;
#endif
    tile->first = tile->slice * slice;
    tile->steps = tile->first < all_steps ? all_steps - tile->first : 0;
    if (tile->steps > slice)
        tile->steps = slice;
    return tile->row < tile->rows;
}

#endif
