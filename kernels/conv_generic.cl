/* SPDX-License-Identifier: MIT */
/*
 * ConvGeneric: convolutions as matrix products on the vector units, for problems of any size.
 *
 * All sizes are arguments, so one program solves every problem of its direction, type and layout
 * (engine/solver/conv_generic.c).  The product is divided into tiles, steps and items like the one
 * of conv_implicit_gemm_vector.cl, and operands are fetched by the same functions:
 *
 *   KILN_DIRECTION   rows (M)   columns (N)          summed over (K)
 *   0 forward        k          pixels of y          taps of the filter, channels of x
 *   1 backward data  c          pixels of x          taps, channels of y
 *   2 backward w     k          channels of x, taps  pixels of y
 *
 * Forward and backward data: a step is one tap and KILN_TILE_K channels.  The taps of a block of
 * channels are summed before the next block of channels.  Backward data with strides is computed
 * for one residue class at a time (kiln/conv_view.h).
 *
 *   KILN_TYPE, KILN_DIRECTION
 *   KILN_LAST        1 if the channels of all tensors come last, 0 if they come first
 *   KILN_FOUR        1: four neighbours along c, and along k, are fetched and stored at once.  It
 *                    needs KILN_LAST, and multiples of four channels in each group
 *   KILN_TILE_M _N _K, KILN_ITEM_M _N   results of a work group and of an item, products of a step
 *   KILN_SPLIT       1: the sum is cut into |splits| parts; the output is a fp32 workspace with
 *                    |splits| copies of the result, for conv_split_reduce
 * In forward and backward data, the filter's sizes over D, H and W add up to less than 32.
 */
#include "kiln/prelude.h"

#define LESSER(a, b) ((a) < (b) ? (a) : (b))
#define GREATER(a, b) ((a) > (b) ? (a) : (b))
#define BLOCKS(a, b) (((a) + (b)-1) / (b))

#define M_ITEMS (KILN_TILE_M / KILN_ITEM_M)
#define N_ITEMS (KILN_TILE_N / KILN_ITEM_N)
#define ITEMS (M_ITEMS * N_ITEMS)

#include "kiln/conv_sizes.h"

/* Options of kiln/igemm_vector_fetch.h.  Operand A has the rows, operand B the columns. */
#define KILN_ASYNC 0
#define KILN_TF32 0
#if WEIGHTS
#define A_ALONG KILN_LAST
#define B_ALONG KILN_LAST
#else
#define A_ALONG DATA
#define B_ALONG (!KILN_LAST)
#endif
#define A_FOUR KILN_FOUR
#define B_FOUR KILN_FOUR
#include "kiln/igemm_vector_fetch.h"

#if KILN_SPLIT
#define OUTPUT float
#define PUT(place, index, v) ((place)[index] = (v))
#define PUT_FOUR(place, index, v) kiln_store_float4(place, index, v)
#else
#define OUTPUT kiln_value
#define PUT(place, index, v) kiln_store(place, index, v)
#define PUT_FOUR(place, index, v) kiln_store4(place, index, v)
#endif

KILN_INLINE kiln_u32 row_count(const struct sizes *s) { return DATA ? s->c : s->k; }

#if !WEIGHTS

#define SOURCE(s) (FORWARD ? (s)->x : (s)->y)
#define TARGET(s) (FORWARD ? (s)->y : (s)->x)
#define CHANNELS(s) (FORWARD ? (s)->c : (s)->k)

KILN_INLINE kiln_u32 column_count(const struct sizes *s, const struct view *v)
{
    return s->n * v->d.pixels * v->h.pixels * v->w.pixels;
}

KILN_INLINE kiln_u32 step_count(const struct sizes *s, const struct view *v)
{
    return BLOCKS(CHANNELS(s), KILN_TILE_K) * v->d.taps * v->h.taps * v->w.taps;
}

struct cursor {
    kiln_u32 channel, d, h, w; /* only contributing taps are numbered */
};

KILN_INLINE void cursor_init(struct cursor *at, const struct view *v, kiln_u32 step)
{
    at->w = step % v->w.taps;
    step /= v->w.taps;
    at->h = step % v->h.taps;
    step /= v->h.taps;
    at->d = step % v->d.taps;
    at->channel = step / v->d.taps * KILN_TILE_K;
}

KILN_INLINE void cursor_advance(struct cursor *at, const struct view *v)
{
    if (++at->w < v->w.taps)
        return;
    at->w = 0;
    if (++at->h < v->h.taps)
        return;
    at->h = 0;
    if (++at->d < v->d.taps)
        return;
    at->d = 0;
    at->channel += KILN_TILE_K;
}

/* One bit for each tap of an axis, set where the tap reads inside the source. */
KILN_INLINE kiln_u32 taps_inside(const struct axis *a, int at)
{
    kiln_u32 met = 0;
    KILN_ROLLED
    for (kiln_u32 tap = 0; tap < a->taps; tap++, at += a->hop)
        met |= (kiln_u32)inside(at, a->limit) << tap;
    return met;
}

KILN_INLINE void find_source(const struct sizes *s, const struct view *v, kiln_u32 column,
                             kiln_u32 *ret_at, kiln_u32 *ret_taps)
{
    struct pixel p = pixel_at(v, column);
    int d = (int)p.d * v->d.scale + v->d.origin;
    int h = (int)p.h * v->h.scale + v->h.origin;
    int w = (int)p.w * v->w.scale + v->w.origin;
    struct strides source = SOURCE(s);
    *ret_at = p.n * source.n + (kiln_u32)d * source.d + (kiln_u32)h * source.h +
              (kiln_u32)w * source.w;
    *ret_taps = taps_inside(&v->w, w) | taps_inside(&v->h, h) << s->filter_w |
                taps_inside(&v->d, d) << (s->filter_w + s->filter_h);
}

KILN_INLINE void fetcher_init(struct fetcher *f, const struct sizes *s, const struct view *v,
                              const struct tile *tile)
{
    kiln_u32 a_m = FORWARD ? s->w_k : s->w_c, a_k = FORWARD ? s->w_c : s->w_k;
    struct strides source = SOURCE(s);
    KILN_UNROLL
    for (int span = 0; span < A_SPANS; span++) {
        kiln_u32 m =
            tile->m + FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH) + (kiln_u32)span * A_SPAN_STEP;
        f->a_at[span] = tile->group * s->k * s->w_k + (m < row_count(s) ? m : 0) * a_m +
                        f->a_depth * a_k;
    }
    KILN_UNROLL
    for (int span = 0; span < B_SPANS; span++) {
        kiln_u32 column =
            tile->n + FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH) + (kiln_u32)span * B_SPAN_STEP;
        find_source(s, v, column < tile->columns ? column : 0, &f->b_at[span], &f->b_taps[span]);
        f->b_at[span] += (tile->group * CHANNELS(s) + f->b_depth) * source.c;
    }
}

KILN_INLINE void fetch_all(struct fetcher *f, const struct sizes *s, const struct view *v,
                           const struct cursor *at, KILN_GLOBAL const kiln_value *a,
                           KILN_GLOBAL const kiln_value *b)
{
    struct strides source = SOURCE(s);
    kiln_u32 a_k = FORWARD ? s->w_c : s->w_k;
    kiln_u32 tap = ((v->d.tap + at->d * v->d.tap_step) * s->filter_h + v->h.tap +
                    at->h * v->h.tap_step) *
                       s->filter_w +
                   v->w.tap + at->w * v->w.tap_step;
    kiln_u32 bits = 1u << at->w | 1u << (s->filter_w + at->h) |
                    1u << (s->filter_w + s->filter_h + at->d);
    kiln_u32 a_from = at->channel * a_k + tap * s->w_tap;
    kiln_u32 b_from = at->channel * source.c + at->d * (kiln_u32)v->d.hop * source.d +
                      at->h * (kiln_u32)v->h.hop * source.h + at->w * (kiln_u32)v->w.hop * source.w;
    if (!A_SPARSE || f->a_active) {
        KILN_UNROLL
        for (int depth = 0; depth < A_DEPTHS; depth++) {
            kiln_u32 along = (kiln_u32)depth * A_DEPTH_STEP;
            int there = at->channel + f->a_depth + along < CHANNELS(s);
            KILN_UNROLL
            for (int span = 0; span < A_SPANS; span++)
                FETCH_A(span, depth, 0, f->a_at[span] + a_from + along * a_k, 1, there);
        }
    }
    if (!B_SPARSE || f->b_active) {
        KILN_UNROLL
        for (int depth = 0; depth < B_DEPTHS; depth++) {
            kiln_u32 along = (kiln_u32)depth * B_DEPTH_STEP;
            int there = at->channel + f->b_depth + along < CHANNELS(s);
            KILN_UNROLL
            for (int span = 0; span < B_SPANS; span++)
                FETCH_B(span, depth, 0, f->b_at[span] + b_from + along * source.c, 1,
                        there && (f->b_taps[span] & bits) == bits);
        }
    }
}

#define RESULT_SIZE(s) ((s)->n * TARGET(s).n)
#define ROW_STEP(s) TARGET(s).c
#define ROWS_FOUR KILN_FOUR
#define COLUMNS_FOUR 0

KILN_INLINE kiln_u32 output_place(const struct sizes *s, const struct view *v,
                                  const struct tile *tile, kiln_u32 column)
{
    struct pixel p = pixel_at(v, column);
    struct strides target = TARGET(s);
    return tile->group * row_count(s) * target.c + p.n * target.n +
           (v->d.first + p.d * v->d.step) * target.d + (v->h.first + p.h * v->h.step) * target.h +
           (v->w.first + p.w * v->w.step) * target.w;
}

#else

/* Columns are in x's order, so that neighbours are contiguous in memory. */
KILN_INLINE void split_column(const struct sizes *s, kiln_u32 column, kiln_u32 *ret_c,
                              kiln_u32 *ret_tap)
{
    *ret_c = KILN_LAST ? column % s->c : column / s->taps;
    *ret_tap = KILN_LAST ? column / s->c : column % s->taps;
}

KILN_INLINE void fetcher_init(struct fetcher *f, const struct sizes *s, const struct tile *tile)
{
    KILN_UNROLL
    for (int span = 0; span < A_SPANS; span++) {
        kiln_u32 m =
            tile->m + FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH) + (kiln_u32)span * A_SPAN_STEP;
        f->a_at[span] = (tile->group * s->k + (m < s->k ? m : 0)) * s->y.c;
    }
    KILN_UNROLL
    for (int span = 0; span < B_SPANS; span++) {
        kiln_u32 c, tap, column = tile->n + FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH) +
                                  (kiln_u32)span * B_SPAN_STEP;
        split_column(s, column < tile->columns ? column : 0, &c, &tap);
        f->b_w[span] = (int)(tap % s->filter_w * s->dilation_w) - (int)s->pad_w;
        tap /= s->filter_w;
        f->b_h[span] = (int)(tap % s->filter_h * s->dilation_h) - (int)s->pad_h;
        f->b_d[span] = (int)(tap / s->filter_h * s->dilation_d) - (int)s->pad_d;
        f->b_at[span] = (tile->group * s->c + c) * s->x.c + (kiln_u32)f->b_d[span] * s->x.d +
                        (kiln_u32)f->b_h[span] * s->x.h + (kiln_u32)f->b_w[span] * s->x.w;
    }
}

KILN_INLINE void fetch_all(struct fetcher *f, const struct sizes *s, kiln_u32 first,
                           KILN_GLOBAL const kiln_value *a, KILN_GLOBAL const kiln_value *b)
{
    kiln_u32 pixels = s->n * s->out_d * s->out_h * s->out_w;
    if (!A_SPARSE || f->a_active) {
        KILN_UNROLL
        for (int depth = 0; depth < A_DEPTHS; depth++) {
            kiln_u32 pixel = first + f->a_depth + (kiln_u32)depth * A_DEPTH_STEP;
            struct pixel p = pixel_of(s, pixel);
            kiln_u32 from = p.n * s->y.n + p.d * s->y.d + p.h * s->y.h + p.w * s->y.w;
            KILN_UNROLL
            for (int span = 0; span < A_SPANS; span++)
                FETCH_A(span, depth, 0, f->a_at[span] + from, 1, pixel < pixels);
        }
    }
    if (!B_SPARSE || f->b_active) {
        KILN_UNROLL
        for (int depth = 0; depth < B_DEPTHS; depth++) {
            kiln_u32 pixel = first + f->b_depth + (kiln_u32)depth * B_DEPTH_STEP;
            struct pixel p = pixel_of(s, pixel);
            kiln_u32 d = p.d * s->stride_d, h = p.h * s->stride_h, w = p.w * s->stride_w;
            kiln_u32 from = p.n * s->x.n + d * s->x.d + h * s->x.h + w * s->x.w;
            KILN_UNROLL
            for (int span = 0; span < B_SPANS; span++)
                FETCH_B(span, depth, 0, f->b_at[span] + from, 1,
                        pixel < pixels && inside((int)d + f->b_d[span], s->in_d) &&
                            inside((int)h + f->b_h[span], s->in_h) &&
                            inside((int)w + f->b_w[span], s->in_w));
        }
    }
}

#define RESULT_SIZE(s) ((s)->groups * (s)->k * (s)->w_k)
#define ROW_STEP(s) (s)->w_k
#define ROWS_FOUR 0
#define COLUMNS_FOUR KILN_FOUR

KILN_INLINE kiln_u32 output_place(const struct sizes *s, const struct view *v,
                                  const struct tile *tile, kiln_u32 column)
{
    kiln_u32 c, tap;
    (void)v;
    split_column(s, column, &c, &tap);
    return tile->group * s->k * s->w_k + c * s->w_c + tap * s->w_tap;
}

#endif

/* An item's rows and columns are in pieces of four.  The 32 items of a warp share rows and columns,
 * so they read little shared memory. */
#define LANES_M LESSER(M_ITEMS, GREATER(4, 32 / N_ITEMS))
#define LANES_N (32 / LANES_M)
#define ITEM_COLUMN (kiln_item() / 32 % (N_ITEMS / LANES_N) * LANES_N + kiln_item() % 32 % LANES_N)
#define ITEM_ROW (kiln_item() / 32 / (N_ITEMS / LANES_N) * LANES_M + kiln_item() % 32 / LANES_N)
#define ROW_OF(i) ((i) / 4 * (M_ITEMS * 4) + (i) % 4)
#define COLUMN_OF(j) ((j) / 4 * (N_ITEMS * 4) + (j) % 4)

/* Otherwise, LLVM for AMD moves all reads of an unrolled loop to its start and spills registers. */
#if defined(KILN_HIP)
#define UNROLL_STEP _Pragma("unroll 4")
#else
#define UNROLL_STEP KILN_UNROLL
#endif

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

KILN_INLINE void put_results(KILN_GLOBAL OUTPUT *output, const struct sizes *s,
                             const struct view *v, const struct tile *tile, const float *sum)
{
    kiln_u32 row = tile->m + ITEM_ROW * 4, first = tile->n + ITEM_COLUMN * 4;
    /* The inner loop tests the column, too: if the outer loop did, by a "continue", PoCL 3.1 would
     * also store some columns beyond the last one. */
    KILN_UNROLL
    for (int j = 0; j < KILN_ITEM_N; j += COLUMNS_FOUR ? 4 : 1) {
        kiln_u32 column = first + COLUMN_OF(j);
        kiln_u32 place = column < tile->columns ? output_place(s, v, tile, column) : 0;
        KILN_UNROLL
        for (int i = 0; i < KILN_ITEM_M; i += ROWS_FOUR ? 4 : 1) {
            const float *at = sum + i * KILN_ITEM_N + j;
            kiln_u32 to = place + (row + ROW_OF(i)) * ROW_STEP(s);
            if (column >= tile->columns || row + ROW_OF(i) >= row_count(s))
                continue;
            if (ROWS_FOUR)
                PUT_FOUR(output, to,
                         kiln_make4(at[0], at[KILN_ITEM_N], at[2 * KILN_ITEM_N],
                                    at[3 * KILN_ITEM_N]));
            else if (COLUMNS_FOUR)
                PUT_FOUR(output, to, kiln_make4(at[0], at[1], at[2], at[3]));
            else
                PUT(output, to, at[0]);
        }
    }
}

#if FORWARD
#define ENTRY conv_generic_forward
#elif DATA
#define ENTRY conv_generic_backward_data
#else
#define ENTRY conv_generic_backward_weights
#endif

/* |column_tiles| counts the tiles of the class with the most columns. */
KILN_KERNEL(ITEMS)
void ENTRY(KILN_GLOBAL const kiln_value *KILN_RESTRICT a,
           KILN_GLOBAL const kiln_value *KILN_RESTRICT b, KILN_GLOBAL OUTPUT *KILN_RESTRICT output,
           kiln_u32 column_tiles, kiln_u32 splits, kiln_u32 n, SIZE_PARAMETERS)
{
    KILN_SHARED16 float a_stages[2 * A_STAGE];
    KILN_SHARED16 float b_stages[2 * B_STAGE];
    struct sizes s;
    struct tile tile;
    struct fetcher f;
    float sum[KILN_ITEM_M * KILN_ITEM_N] = { 0 };
    take_sizes(&s, n, SIZE_ARGUMENTS);

    kiln_u32 id = kiln_group(), row_tiles = BLOCKS(row_count(&s), KILN_TILE_M);
    kiln_u32 classes = DATA ? s.stride_d * s.stride_h * s.stride_w : 1;
    tile.m = id % row_tiles * KILN_TILE_M;
    id /= row_tiles;
    tile.n = id % column_tiles * KILN_TILE_N;
    id /= column_tiles;
    struct view v = view_of_sizes(&s, id % classes);
    id /= classes;
    tile.group = id % groups;
    tile.split = id / groups;

#if WEIGHTS
    tile.columns = s.c * s.taps;
    kiln_u32 steps = BLOCKS(n * out_d * out_h * out_w, KILN_TILE_K), step = 0;
#else
    tile.columns = column_count(&s, &v);
    kiln_u32 steps = step_count(&s, &v), step = 0;
#endif
    if (tile.n >= tile.columns)
        return;
    if (KILN_SPLIT) {
        kiln_u32 share = BLOCKS(steps, splits);
        step = LESSER(tile.split * share, steps);
        steps = LESSER(share, steps - step);
    }

    f.a_depth = FIRST_DEPTH(A_ALONG, KILN_TILE_M, A_WIDTH);
    f.b_depth = FIRST_DEPTH(B_ALONG, KILN_TILE_N, B_WIDTH);
    f.a_to = f.a_depth * A_ROW + FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH);
    f.b_to = f.b_depth * B_ROW + FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH);
    f.a_active =
        A_ALONG ? f.a_depth < KILN_TILE_K : FIRST_SPAN(A_ALONG, KILN_TILE_M, A_WIDTH) < KILN_TILE_M;
    f.b_active =
        B_ALONG ? f.b_depth < KILN_TILE_K : FIRST_SPAN(B_ALONG, KILN_TILE_N, B_WIDTH) < KILN_TILE_N;
#if WEIGHTS
    kiln_u32 pixel = step * KILN_TILE_K;
    fetcher_init(&f, &s, &tile);
#define FETCH_ALL() fetch_all(&f, &s, pixel, a, b)
#define ADVANCE() (pixel += KILN_TILE_K)
#else
    struct cursor at;
    fetcher_init(&f, &s, &v, &tile);
    if (steps > 0)
        cursor_init(&at, &v, step);
#define FETCH_ALL() fetch_all(&f, &s, &v, &at, a, b)
#define ADVANCE() cursor_advance(&at, &v)
#endif
    KILN_LOCAL const float *rows = a_stages + ITEM_ROW * 4;
    KILN_LOCAL const float *columns = b_stages + ITEM_COLUMN * 4;

    if (steps > 0) {
        FETCH_ALL();
        keep_all(&f, a_stages, b_stages);
    }
    kiln_barrier();
    kiln_u32 stage = 0;
    KILN_ROLLED
    for (kiln_u32 i = 0; i < steps; i++) {
        kiln_u32 next = stage ^ 1;
        if (i + 1 < steps) {
            ADVANCE();
            FETCH_ALL();
        }
        multiply(rows + stage * A_STAGE, columns + stage * B_STAGE, sum);
        if (i + 1 < steps)
            keep_all(&f, a_stages + next * A_STAGE, b_stages + next * B_STAGE);
        kiln_barrier();
        stage = next;
    }
    if (KILN_SPLIT)
        output += tile.split * (kiln_u64)RESULT_SIZE(&s);
    put_results(output, &s, &v, &tile, sum);
}
