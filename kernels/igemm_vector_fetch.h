/* SPDX-License-Identifier: MIT */
/*
 * Fetching for conv_implicit_gemm_vector.cl: copies a step's operands from memory to a stage of
 * shared memory.
 *
 * The including file first describes operands A and B by these macros, where X is A or B:
 *   X_ALONG   1 if neighbours along the tile's rows or columns are contiguous in memory; 0 if
 *             neighbours along the sum are
 *   X_FOUR    1: four neighbours can be fetched at once, because they are aligned, and either all
 *             or none of them are elements of the operand
 * This file defines struct fetcher, struct tile, FETCH_A and FETCH_B (one fetch of an item), and
 * keep_all if copies pass through registers.
 */
#ifndef KILN_IGEMM_VECTOR_FETCH_H
#define KILN_IGEMM_VECTOR_FETCH_H

/*
 * In one step, a work group fetches TILE elements of an operand along the tile (its rows for A, its
 * columns for B) times KILN_TILE_K elements along the sum.  If X_ALONG is 1, the operand is fetched
 * "along": neighbouring items fetch neighbours along the tile.  Otherwise it is fetched "across":
 * neighbouring items fetch neighbours along the sum.  Each item does SPANS x DEPTHS fetches of
 * |width| elements: at SPANS positions along the tile, and DEPTHS positions along the sum.
 */
#define LANES(along, tile, width)              \
    ((along) ? LESSER((tile) / (width), ITEMS) \
             : LESSER(KILN_TILE_K / (width), (width) == 1 ? 8 : 2))
#define PASS(along, tile, width) (ITEMS / LANES(along, tile, width))
#define SPANS(along, tile, width)                           \
    ((along) ? (tile) / (width) / LANES(along, tile, width) \
             : GREATER(1, (tile) / PASS(along, tile, width)))
#define DEPTHS(along, tile, width)                                \
    ((along) ? GREATER(1, KILN_TILE_K / PASS(along, tile, width)) \
             : KILN_TILE_K / (width) / LANES(along, tile, width))
#define SPAN_STEP(along, tile, width) \
    ((along) ? LANES(along, tile, width) * (width) : PASS(along, tile, width))
#define DEPTH_STEP(along, tile, width) \
    ((along) ? PASS(along, tile, width) : LANES(along, tile, width) * (width))
#define FIRST_SPAN(along, tile, width)                           \
    ((along) ? kiln_item() % LANES(along, tile, width) * (width) \
             : kiln_item() / LANES(along, tile, width))
#define FIRST_DEPTH(along, tile, width)                \
    ((along) ? kiln_item() / LANES(along, tile, width) \
             : kiln_item() % LANES(along, tile, width) * (width))
/* Whether there are fewer fetches than items, so that the last items have none. */
#define IS_SPARSE(along, tile, width) \
    ((along) ? PASS(along, tile, width) > KILN_TILE_K : PASS(along, tile, width) > (tile))

#define A_WIDTH (A_FOUR ? 4 : 1)
#define B_WIDTH (B_FOUR ? 4 : 1)
#define A_SPANS SPANS(A_ALONG, KILN_TILE_M, A_WIDTH)
#define B_SPANS SPANS(B_ALONG, KILN_TILE_N, B_WIDTH)
#define A_DEPTHS DEPTHS(A_ALONG, KILN_TILE_M, A_WIDTH)
#define B_DEPTHS DEPTHS(B_ALONG, KILN_TILE_N, B_WIDTH)
#define A_SPAN_STEP SPAN_STEP(A_ALONG, KILN_TILE_M, A_WIDTH)
#define B_SPAN_STEP SPAN_STEP(B_ALONG, KILN_TILE_N, B_WIDTH)
#define A_DEPTH_STEP DEPTH_STEP(A_ALONG, KILN_TILE_M, A_WIDTH)
#define B_DEPTH_STEP DEPTH_STEP(B_ALONG, KILN_TILE_N, B_WIDTH)
#define A_SPARSE IS_SPARSE(A_ALONG, KILN_TILE_M, A_WIDTH)
#define B_SPARSE IS_SPARSE(B_ALONG, KILN_TILE_N, B_WIDTH)

/* In shared memory, a row has KILN_TILE_M or KILN_TILE_N floats and padding.  Four floats of
 * padding spread the stores of "across" over the banks.  Matrix cores need eight, because two items
 * read the same four rows. */
#define PADDING(along) (KILN_TF32 ? 8 : (along) ? 0 : 4)
#define A_ROW (KILN_TILE_M + PADDING(A_ALONG))
#define B_ROW (KILN_TILE_N + PADDING(B_ALONG))
#define A_STAGE (KILN_TILE_K * A_ROW)
#define B_STAGE (KILN_TILE_K * B_ROW)

struct fetcher {
    kiln_u32 a_at[A_SPANS], b_at[B_SPANS]; /* offsets from the operand's start, in elements */
    kiln_u32 a_depth, b_depth; /* first position along the sum */
    /* Target in a stage: the index of a float, or an address in shared memory. */
    kiln_u32 a_to, b_to;
    int a_active, b_active;
#if !KILN_ASYNC
    float a_held[A_SPANS * A_DEPTHS * A_WIDTH], b_held[B_SPANS * B_DEPTHS * B_WIDTH];
#endif
#if KILN_DIRECTION == 2
    /* Pixel of x that the tap reads for y's first pixel. */
    int b_d[B_SPANS], b_h[B_SPANS], b_w[B_SPANS];
#else
    /* A bit is set where that row or column of taps reads inside the image. */
    kiln_u32 b_taps[B_SPANS];
#endif
};

#if KILN_ASYNC

#define A_PLACE(span, depth, stage) \
    (f->a_to + ((stage)*A_STAGE + (depth)*A_DEPTH_STEP * A_ROW + (span)*A_SPAN_STEP) * 4)
#define B_PLACE(span, depth, stage) \
    (f->b_to + ((stage)*B_STAGE + (depth)*B_DEPTH_STEP * B_ROW + (span)*B_SPAN_STEP) * 4)

#define FETCH_A(span, depth, stage, index, checked, valid) \
    kiln_copy_async(A_PLACE(span, depth, stage), a + (index), A_WIDTH * 4, !(checked) || (valid))
#define FETCH_B(span, depth, stage, index, checked, valid) \
    kiln_copy_async(B_PLACE(span, depth, stage), b + (index), B_WIDTH * 4, !(checked) || (valid))

#else

KILN_INLINE void fetch(float *held, KILN_GLOBAL const kiln_value *from, kiln_u32 index, int width,
                       int valid)
{
    if (width == 1) {
        held[0] = valid ? kiln_load(from, index) : 0.0f;
    } else {
        kiln_float4 four = kiln_make4(0.0f, 0.0f, 0.0f, 0.0f);
        if (valid)
            four = kiln_load4(from, index);
        held[0] = four.x;
        held[1] = four.y;
        held[2] = four.z;
        held[3] = four.w;
    }
}

#define FETCH_A(span, depth, stage, index, checked, valid)                      \
    fetch(f->a_held + ((span)*A_DEPTHS + (depth)) * A_WIDTH, a, index, A_WIDTH, \
          !(checked) || (valid))
#define FETCH_B(span, depth, stage, index, checked, valid)                      \
    fetch(f->b_held + ((span)*B_DEPTHS + (depth)) * B_WIDTH, b, index, B_WIDTH, \
          !(checked) || (valid))

KILN_INLINE void keep(KILN_LOCAL float *to, const float *held, int width, int along, int row)
{
    if (width == 1) {
        to[0] = held[0];
    } else if (along) {
        kiln_put_shared4(to, held);
    } else {
        to[0] = held[0];
        to[row] = held[1];
        to[2 * row] = held[2];
        to[3 * row] = held[3];
    }
}

KILN_INLINE void keep_all(const struct fetcher *f, KILN_LOCAL float *a, KILN_LOCAL float *b)
{
    if (!A_SPARSE || f->a_active) {
        KILN_UNROLL
        for (int span = 0; span < A_SPANS; span++) {
            KILN_UNROLL
            for (int depth = 0; depth < A_DEPTHS; depth++)
                keep(a + f->a_to + depth * A_DEPTH_STEP * A_ROW + span * A_SPAN_STEP,
                     f->a_held + (span * A_DEPTHS + depth) * A_WIDTH, A_WIDTH, A_ALONG, A_ROW);
        }
    }
    if (!B_SPARSE || f->b_active) {
        KILN_UNROLL
        for (int span = 0; span < B_SPANS; span++) {
            KILN_UNROLL
            for (int depth = 0; depth < B_DEPTHS; depth++)
                keep(b + f->b_to + depth * B_DEPTH_STEP * B_ROW + span * B_SPAN_STEP,
                     f->b_held + (span * B_DEPTHS + depth) * B_WIDTH, B_WIDTH, B_ALONG, B_ROW);
        }
    }
}

#endif

/* All items of a work group have the same tile. */
struct tile {
    kiln_u32 group, split;
    kiln_u32 m, n; /* first row and column */
    kiln_u32 columns; /* columns in the tile's residue class */
#if KILN_DIRECTION == 1
    kiln_u32 count_d, count_h, count_w; /* pixels of the class in one image */
    kiln_u32 first_d, first_h, first_w; /* first pixel of the class */
    kiln_u32 tap_d, tap_h, tap_w; /* first tap of the class */
    /* Pixel of y that the first tap reads for the first pixel of the class. */
    int from_d, from_h, from_w;
#endif
    kiln_u32 taps_d, taps_h, taps_w; /* taps that reach this class */
};

#endif
