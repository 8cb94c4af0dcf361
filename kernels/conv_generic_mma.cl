/* SPDX-License-Identifier: MIT */
/*
 * ConvGeneric on matrix cores: conv_implicit_gemm_mma.cl, unchanged, for problems of any size.
 *
 * That file reads all sizes from options.  Here, they are kernel arguments: the macros with the
 * options' names stand for members of a structure, and the functions that divide by sizes are
 * replaced.  Most functions of that file have a parameter |v| or |tile|, so both structures contain
 * the sizes.  Inlining leaves one copy of each in registers.
 *
 * The options KILN_DIRECTION, KILN_TYPE, KILN_TILE_M, KILN_TILE_N, KILN_TILE_K, KILN_WARPS_M,
 * KILN_WARPS_N, KILN_WIDE, KILN_STAGES, KILN_BLOCKS, KILN_CORES, KILN_PAIRS, KILN_TILES_BYTES and
 * KILN_PARTIAL are those of conv_implicit_gemm_mma.cl.  Others:
 *   KILN_PLAIN         1: the operands are packed tensors (conv_generic_pack.cl), but the result is
 *                      written in the caller's layout.  Only for forward and backward data, without
 *                      KILN_PARTIAL
 */
#define KILN_LAST 1
#define KILN_CACHE 0

/* The views of kiln/conv_view.h do not contain sizes. */
#define view plain_view
#include "kiln/conv_sizes.h"
#undef view

struct view {
    struct axis d, h, w;
    struct sizes s;
};

/* Instead of kiln/conv_mma_place.h */
#define KILN_CONV_MMA_PLACE_H

struct place {
    kiln_u32 group, row, column; /* the tile's first row and column */
    kiln_u32 rows;               /* rows of the tile's residue class */
    kiln_u32 columns;
    kiln_u32 residue, slice;
    kiln_u32 first, steps; /* range of the reduction, in tiles */
    struct sizes s;
};

#if WEIGHTS
/* Functions that read these have no parameter |tile|; those that read other sizes have one. */
#undef KILN_IN_D
#undef KILN_IN_H
#undef KILN_IN_W
#undef KILN_STRIDE_D
#undef KILN_STRIDE_H
#undef KILN_STRIDE_W
#define KILN_IN_D v->s.in_d
#define KILN_IN_H v->s.in_h
#define KILN_IN_W v->s.in_w
#define KILN_STRIDE_D v->s.stride_d
#define KILN_STRIDE_H v->s.stride_h
#define KILN_STRIDE_W v->s.stride_w
#define SIZES (&tile->s)
#else
#define SIZES (&v->s)
#endif
#define KILN_X_PIXEL v->s.x.w
#define Y_PIXEL SIZES->y.w
#define W_ROW SIZES->w_k
#define COLUMNS tile->columns
#define SOURCE_C (FORWARD ? KILN_C : KILN_K)
#define C_TILES ((SOURCE_C + KILN_TILE_K - 1) / KILN_TILE_K)
#define HAS_PLANES 0
#define STORES_SUMS (KILN_PLAIN || KILN_PARTIAL || KILN_TYPE == 0)
#if KILN_PARTIAL || KILN_TYPE == 0
#define RESULT float
#else
#define RESULT kiln_value
#endif

#if DATA
KILN_INLINE struct pixel pixel_in(const struct view *v, kiln_u32 index)
{
    struct pixel p;
    p.w = index % v->w.pixels;
    index /= v->w.pixels;
    p.h = index % v->h.pixels;
    index /= v->h.pixels;
    p.d = index % v->d.pixels;
    p.n = index / v->d.pixels;
    return p;
}
#define pixel_at(v, index) pixel_in(v, index)
#else
#define pixel_at(v, index) pixel_of(&(v)->s, index)
#endif

KILN_INLINE kiln_u32 tiles_of(kiln_u32 size, kiln_u32 tile) { return (size + tile - 1) / tile; }

/* The left matrix has so many rows in the largest residue class. */
KILN_INLINE kiln_u32 most_rows(const struct sizes *s)
{
#if WEIGHTS
    return s->k;
#elif FORWARD
    return s->n * s->out_d * s->out_h * s->out_w;
#else
    return s->n * tiles_of(s->in_d, s->stride_d) * tiles_of(s->in_h, s->stride_h) *
           tiles_of(s->in_w, s->stride_w);
#endif
}

/* Tiles are numbered along the columns, then by residue class, row, group and slice. */
KILN_INLINE int find_place(kiln_u32 number, kiln_u32 slice, struct place *tile, struct view *v,
                           kiln_u32 n, SIZE_PARAMETERS)
{
    struct sizes s;
    take_sizes(&s, n, SIZE_ARGUMENTS);
    kiln_u32 residues = DATA ? s.stride_d * s.stride_h * s.stride_w : 1;
    tile->columns = FORWARD ? s.k : DATA ? s.c : s.w_k;
    kiln_u32 columns = tiles_of(tile->columns, KILN_TILE_N);
    tile->column = number % columns * KILN_TILE_N;
    number /= columns;
    tile->residue = number % residues;
    number /= residues;
    kiln_u32 rows = tiles_of(most_rows(&s), KILN_TILE_M);
    tile->row = number % rows * KILN_TILE_M;
    number /= rows;
    tile->group = number % groups;
    tile->slice = number / groups;

    struct plain_view axes = view_of_sizes(&s, tile->residue);
    v->d = axes.d;
    v->h = axes.h;
    v->w = axes.w;
    v->s = tile->s = s;
#if WEIGHTS
    tile->rows = k;
    kiln_u32 all_steps = tiles_of(n * out_d * out_h * out_w, KILN_TILE_K);
#else
    tile->rows = n * v->d.pixels * v->h.pixels * v->w.pixels;
    kiln_u32 all_steps = v->d.taps * v->h.taps * v->w.taps * C_TILES;
#endif
    tile->first = tile->slice * slice;
    tile->steps = tile->first < all_steps ? all_steps - tile->first : 0;
    if (tile->steps > slice)
        tile->steps = slice;
    return tile->row < tile->rows;
}

/* These are used in the kernel, where |v| is a variable and sizes are parameters. */
#define place_of(number, n, slice, tile, v) \
    find_place(number, slice, tile, v, n, SIZE_ARGUMENTS)
#define OUT_PIXELS (out_d * out_h * out_w)
#if KILN_PLAIN
#define result_size(n) 0 /* there are no slices */
#elif WEIGHTS
#define result_size(n) (groups * k * v.s.w_k)
#elif FORWARD
#define result_size(n) ((n) * v.s.y.n)
#else
#define result_size(n) ((n) * v.s.x.n)
#endif

#if KILN_PLAIN

/* Instead of kiln/conv_mma_result.h */
#define KILN_CONV_MMA_RESULT_H

/* Returns the index of a row's first element in a result with |channels| in a group.  Stores the
 * distance to the next channel. */
KILN_INLINE kiln_u32 plain_row(const struct view *v, const struct place *tile, kiln_u32 row,
                               kiln_u32 channels, kiln_u32 is_last, kiln_u32 *ret_step)
{
    const struct sizes *s = &tile->s;
    struct pixel p = pixel_at(v, row);
    kiln_u32 h = FORWARD ? s->out_h : s->in_h, w = FORWARD ? s->out_w : s->in_w;
    kiln_u32 pixels = (FORWARD ? s->out_d : s->in_d) * h * w, all = s->groups * channels;
    kiln_u32 pixel = ((v->d.first + p.d * v->d.step) * h + v->h.first + p.h * v->h.step) * w +
                     v->w.first + p.w * v->w.step;
    *ret_step = is_last ? 1 : pixels;
    return is_last ? (p.n * pixels + pixel) * all + tile->group * channels
                   : (p.n * all + tile->group * channels) * pixels + pixel;
}

/* A macro, because conv_implicit_gemm_mma.cl defines what it uses.  Neighbouring lanes have
 * neighbouring rows, which are pixels. */
#define store(result, v, tile, sum)                                                              \
    do {                                                                                         \
        kiln_u32 lane = kiln_item() % KILN_WAVE;                                                 \
        KILN_UNROLLED                                                                            \
        for (int i = 0; i < BLOCKS_M * KILN_SUMS; i++) {                                         \
            kiln_u32 in_block = i % KILN_SUMS, step;                                             \
            kiln_u32 row = (tile)->row + block_row(i / KILN_SUMS) + kiln_sum_row(lane, in_block); \
            kiln_u32 column =                                                                    \
                (tile)->column + first_column() + kiln_sum_column(lane, in_block);               \
            kiln_u32 at = plain_row(v, tile, row, plain_channels, plain_last, &step);            \
            KILN_UNROLLED                                                                        \
            for (int j = 0; j < BLOCKS_N; j++, column += KILN_BLOCK_N)                           \
                if (row < (tile)->rows && column < plain_channels)                               \
                    kiln_store(result, at + column * step, (sum)[i / KILN_SUMS][j][in_block]);   \
        }                                                                                        \
    } while (0)

#define PLAIN_PARAMETERS , kiln_u32 plain_channels, kiln_u32 plain_last
#else
#define PLAIN_PARAMETERS
#endif

/* The kernel's declaration uses these names. */
#define conv_implicit_gemm_mma_forward(left, right, to, n, slice) \
    conv_generic_mma_forward(left, right, to, slice, n, SIZE_PARAMETERS PLAIN_PARAMETERS)
#define conv_implicit_gemm_mma_backward_data(left, right, to, n, slice) \
    conv_generic_mma_backward_data(left, right, to, slice, n, SIZE_PARAMETERS PLAIN_PARAMETERS)
#define conv_implicit_gemm_mma_backward_weights(left, right, to, n, slice) \
    conv_generic_mma_backward_weights(left, right, to, slice, n, SIZE_PARAMETERS)

#include "kiln/conv_implicit_gemm_mma.cl"
