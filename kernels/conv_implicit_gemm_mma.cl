/* SPDX-License-Identifier: MIT */
/*
 * ConvImplicitGemm on matrix cores of NVIDIA GPUs (sm_80 and later) and AMD GPUs (CDNA, RDNA 3 and
 * 4): fp16 or bf16, on NVIDIA also fp32 rounded to TF32, with fp32 sums.
 *
 * It computes a product of two matrices, left (rows x reduction) times right (reduction x columns).
 * Their elements are read from the tensors when they are needed:
 *
 *   KILN_DIRECTION        rows                columns       reduction
 *   0 forward             pixels of y         k             taps of the filter x c
 *   1 backward data       pixels of x         c             taps x k
 *   2 backward weights    k                   taps x c      pixels of y
 *
 * The tensors' channels come last, in multiples of 16 bytes for each group (conv_reorder.cl packs
 * them).
 * Backward data with a stride is computed for one residue class at a time: the pixels of x whose
 * padded coordinates have the same residue.  The same taps contribute to all of them, and only
 * these taps are multiplied.
 *
 * Options (_D _H _W: one option for each of these suffixes):
 *   KILN_TYPE  KILN_C KILN_K (of one group)  KILN_GROUPS
 *   KILN_IN KILN_OUT KILN_FILTER KILN_PAD KILN_STRIDE KILN_DILATION   _D _H _W
 *   KILN_TAP_STEP      _D _H _W; stride / gcd(stride, dilation)
 *   KILN_X_PIXEL       elements from a pixel of x to the next: C * GROUPS, or fewer if x is folded:
 *                      neighbouring pixels then overlap (engine/solver/conv_packing.h)
 *   KILN_TILE_M KILN_TILE_N KILN_TILE_K    tile of one work group
 *   KILN_WARPS_M KILN_WARPS_N              warps (waves) of a work group along M and N
 *   KILN_WIDE          0 if each warp multiplies alone.  On sm_90a, four warps along M can multiply
 *                      together with operands in shared memory; it is then KILN_TILE_N /
 *                      KILN_WARPS_N
 *   KILN_STAGES        tiles in shared memory: one is multiplied while others are copied
 *   KILN_BAND          height of a band, in tiles: a band's tiles are computed one after another,
 *                      so that they share cached operands
 *   KILN_CACHE         1 if copies also use the L1 cache
 *   KILN_BLOCKS        work groups that must fit one multiprocessor; limits registers (NVIDIA)
 *   KILN_CORES KILN_PAIRS                  kind of matrix cores (AMD), see kiln/matrix_cores_amd.h
 *   KILN_TILES_BYTES   bytes of shared memory (AMD)
 *   KILN_PARTIAL       1: the reduction is split; the fp32 sums of the slices are written one slice
 *                      after another
 */
#include "kiln/conv_mma_place.h"
#include "kiln/conv_view.h"
#include "kiln/matrix_cores.h"
#include "kiln/prelude.h"

#define THREADS (KILN_WAVE * KILN_WARPS_M * KILN_WARPS_N)

/* A tile has rows of up to 128 bytes.  Its 16-byte chunks are swizzled: the chunk's number is XORed
 * with the row's number.  So the chunks of eight rows in one column are in different banks, and so
 * are the eight chunks of a row. */
#define LEFT_BYTES (KILN_TILE_M * KILN_TILE_K * KILN_ELEMENT)
#define RIGHT_BYTES (KILN_TILE_N * KILN_TILE_K * KILN_ELEMENT)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)

KILN_INLINE kiln_u32 turn(kiln_u32 row, kiln_u32 chunk, kiln_u32 chunks)
{
#if KILN_STAGED
    /* Rows 8 apart, which a transposing copy writes together, are swizzled differently. */
    row ^= row >> 2 & 6;
#endif
    return chunk ^ (chunks >= 8 ? row & 7 : chunks == 4 ? row >> 1 & 3 : row >> 2 & 1);
}

/* The tile's rows run along the reduction. */
KILN_INLINE kiln_u32 along(kiln_u32 row, kiln_u32 chunk)
{
    return row * (KILN_TILE_K * KILN_ELEMENT) + turn(row, chunk, KILN_TILE_K / KILN_CHUNK) * 16;
}

#if !KILN_STAGED
/* A transposed tile has a row for each step of the reduction, in panels of 128 bytes. */
KILN_INLINE kiln_u32 across(kiln_u32 step, kiln_u32 chunk, kiln_u32 width)
{
    kiln_u32 chunks = width < 8 * KILN_CHUNK ? width / KILN_CHUNK : 8;
    kiln_u32 at = chunk % chunks;
#if KILN_TYPE == 0 /* a warp reads two chunks of each of four steps */
    at ^= (step & 3) * 2;
#else
    at = turn(step, at, chunks);
#endif
    return chunk / chunks * (KILN_TILE_K * 128) + step * chunks * 16 + at * 16;
}
#endif

#define K_CHUNKS (KILN_TILE_K / KILN_CHUNK)
#define M_CHUNKS (KILN_TILE_M / KILN_CHUNK)
#define N_CHUNKS (KILN_TILE_N / KILN_CHUNK)
#define PASSES(chunks) (((chunks) + THREADS - 1) / THREADS)
#define HAS_CHUNK(pass, chunks) ((chunks) % THREADS == 0 || (pass)*THREADS + kiln_item() < (chunks))

/* These functions are for operands that are not contiguous along the reduction.  With rows of
 * |chunks| chunks, an item copies chunk across_chunk() of step across_step() + BEYOND(pass). */
#if KILN_STAGED
/* An item copies two steps at a time, so that it writes pairs of elements into a transposed tile.
 * Of 32 neighbouring items, 4 have neighbouring chunks and 8 have neighbouring steps. */
KILN_INLINE kiln_u32 across_chunk(kiln_u32 chunks)
{
    return kiln_item() % 4 + kiln_item() / 32 % (chunks / 4) * 4;
}
KILN_INLINE kiln_u32 across_step(kiln_u32 chunks)
{
    return (kiln_item() / 4 % 8 + kiln_item() / (8 * chunks) * 8) * 2;
}
#define BEYOND(pass, chunks) ((pass) / 2 * (THREADS * 2 / (chunks)) + (pass) % 2)
#define PASSES_ACROSS(chunks) (2 * PASSES((chunks)*KILN_TILE_K / 2))
#define HAS_ACROSS(pass, chunks) HAS_CHUNK((pass) / 2, (chunks)*KILN_TILE_K / 2)
#else
KILN_INLINE kiln_u32 across_chunk(kiln_u32 chunks) { return kiln_item() % chunks; }
KILN_INLINE kiln_u32 across_step(kiln_u32 chunks) { return kiln_item() / chunks; }
#define BEYOND(pass, chunks) ((pass) * (THREADS / (chunks)))
#define PASSES_ACROSS(chunks) PASSES((chunks)*KILN_TILE_K)
#define HAS_ACROSS(pass, chunks) HAS_CHUNK(pass, (chunks)*KILN_TILE_K)
#endif

#if WEIGHTS
#define LEFT_PASSES PASSES_ACROSS(M_CHUNKS)
#else
#define LEFT_PASSES PASSES(KILN_TILE_M *K_CHUNKS)
#endif
#if FORWARD
#define RIGHT_PASSES PASSES(KILN_TILE_N *K_CHUNKS)
#else
#define RIGHT_PASSES PASSES_ACROSS(N_CHUNKS)
#endif

/* Chunks in registers, on their way to the tiles. */
#if KILN_STAGED
struct landing {
    kiln_chunk left[LEFT_PASSES], right[RIGHT_PASSES];
};
#define COPY16(chunk, tiles, at, from, is_there) kiln_fetch16(chunk, from, is_there)

KILN_INLINE void put_along(kiln_tiles shared, kiln_u32 to, const kiln_chunk *chunk, int pass)
{
    kiln_u32 row = kiln_item() / K_CHUNKS + pass * (THREADS / K_CHUNKS);
    kiln_tiles_put16(shared, to + along(row, kiln_item() % K_CHUNKS), chunk);
}

KILN_INLINE void put_turned(kiln_tiles shared, kiln_u32 to, const kiln_chunk *pair, int pass,
                            kiln_u32 wide)
{
    kiln_u32 step = across_step(wide) + BEYOND(pass, wide);
    KILN_UNROLLED
    for (int i = 0; i < 8; i++)
        kiln_tiles_put4(shared, to + along(across_chunk(wide) * 8 + i, step / 8) + step % 8 * 2,
                        kiln_pair(&pair[0], &pair[1], i));
}

KILN_INLINE void put_tile(kiln_tiles shared, kiln_u32 to, const struct landing *landing)
{
#if WEIGHTS
    KILN_UNROLLED
    for (int i = 0; i < LEFT_PASSES; i += 2)
        if (HAS_ACROSS(i, M_CHUNKS))
            put_turned(shared, to, &landing->left[i], i, M_CHUNKS);
#else
    KILN_UNROLLED
    for (int i = 0; i < LEFT_PASSES; i++)
        if (HAS_CHUNK(i, KILN_TILE_M * K_CHUNKS))
            put_along(shared, to, &landing->left[i], i);
#endif
#if FORWARD
    KILN_UNROLLED
    for (int i = 0; i < RIGHT_PASSES; i++)
        if (HAS_CHUNK(i, KILN_TILE_N * K_CHUNKS))
            put_along(shared, to + LEFT_BYTES, &landing->right[i], i);
#else
    KILN_UNROLLED
    for (int i = 0; i < RIGHT_PASSES; i += 2)
        if (HAS_ACROSS(i, N_CHUNKS))
            put_turned(shared, to + LEFT_BYTES, &landing->right[i], i, N_CHUNKS);
#endif
}
#else
struct landing {
    int nothing;
};
#define COPY16(chunk, tiles, at, from, is_there) kiln_copy16(tiles, at, from, is_there)
#endif

#if !WEIGHTS

#define SOURCE_PIXEL (FORWARD ? KILN_X_PIXEL : Y_PIXEL)
#define SOURCE_H (FORWARD ? KILN_IN_H : KILN_OUT_H)
#define SOURCE_W (FORWARD ? KILN_IN_W : KILN_OUT_W)
#define SOURCE_D (FORWARD ? KILN_IN_D : KILN_OUT_D)

struct cursor {
    kiln_u32 c, w, h, d; /* first channel; only contributing taps are numbered */
};

KILN_INLINE struct cursor cursor_at(const struct view *v, kiln_u32 tile)
{
    struct cursor at;
    kiln_u32 tap = tile / C_TILES;
    at.c = tile % C_TILES * KILN_TILE_K;
    at.w = tap % (v->w.taps ? v->w.taps : 1);
    tap /= v->w.taps ? v->w.taps : 1;
    at.h = tap % (v->h.taps ? v->h.taps : 1);
    at.d = tap / (v->h.taps ? v->h.taps : 1);
    return at;
}

KILN_INLINE void advance(const struct view *v, struct cursor *at)
{
    at->c += KILN_TILE_K;
    if (at->c < SOURCE_C)
        return;
    at->c = 0;
    if (++at->w < v->w.taps)
        return;
    at->w = 0;
    if (++at->h < v->h.taps)
        return;
    at->h = 0;
    at->d++;
}

/* An item's rows of the left matrix, which do not change along the reduction. */
struct rows {
    kiln_u32 from[LEFT_PASSES]; /* index of the source element at tap 0 */
    /* A bit is set where the tap reads inside the image: taps along W, then H, then D. */
    kiln_u32 taps[LEFT_PASSES];
};
#define TAP_W(tap) (1u << (tap))
#define TAP_H(tap) (1u << (KILN_FILTER_W + (tap)))
#define TAP_D(tap) (1u << (KILN_FILTER_W + KILN_FILTER_H + (tap)))
/* This bit is never set, because the filter's sizes add up to less than 32. */
#define NO_TAP 0x80000000u

KILN_INLINE kiln_u32 taps_inside(const struct axis *a, kiln_u32 pixel)
{
    kiln_u32 met = 0;
    int at = (int)pixel * a->scale + a->origin;
    for (kiln_u32 tap = 0; tap < a->taps; tap++, at += a->hop)
        met |= (kiln_u32)inside(at, a->limit) << tap;
    return met;
}

KILN_INLINE void find_rows(const struct view *v, const struct place *tile, struct rows *ret)
{
    KILN_UNROLLED
    for (int i = 0; i < LEFT_PASSES; i++) {
        kiln_u32 row = tile->row + (i * THREADS + kiln_item()) / K_CHUNKS;
        struct pixel p = pixel_at(v, row);
        int d = (int)p.d * v->d.scale + v->d.origin;
        int h = (int)p.h * v->h.scale + v->h.origin;
        int w = (int)p.w * v->w.scale + v->w.origin;
        ret->from[i] =
            (kiln_u32)((((int)p.n * SOURCE_D + d) * SOURCE_H + h) * SOURCE_W + w) * SOURCE_PIXEL +
            tile->group * SOURCE_C + kiln_item() % K_CHUNKS * KILN_CHUNK;
        ret->taps[i] = taps_inside(&v->w, p.w) | taps_inside(&v->h, p.h) << KILN_FILTER_W |
                       taps_inside(&v->d, p.d) << (KILN_FILTER_W + KILN_FILTER_H);
        if (row >= tile->rows)
            ret->taps[i] = 0;
    }
}

KILN_INLINE void copy_left(struct landing *landing, kiln_tiles shared, kiln_u32 to,
                           KILN_GLOBAL const kiln_value *source, const struct view *v,
                           const struct rows *rows, const struct cursor *at)
{
    kiln_u32 chunk = kiln_item() % K_CHUNKS, row = kiln_item() / K_CHUNKS;
    kiln_u32 need = TAP_W(at->w) | TAP_H(at->h) | TAP_D(at->d);
    int move = (((int)at->d * v->d.hop * SOURCE_H + (int)at->h * v->h.hop) * SOURCE_W +
                (int)at->w * v->w.hop) *
                   SOURCE_PIXEL +
               (int)at->c;
    if (SOURCE_C % KILN_TILE_K && at->c + chunk * KILN_CHUNK >= SOURCE_C)
        need = NO_TAP;
    KILN_UNROLLED
    for (int i = 0; i < LEFT_PASSES; i++)
        if (HAS_CHUNK(i, KILN_TILE_M * K_CHUNKS))
            COPY16(&landing->left[i], shared, to + along(row + i * (THREADS / K_CHUNKS), chunk),
                   source + (rows->from[i] + (kiln_u32)move), (rows->taps[i] & need) == need);
}

KILN_INLINE kiln_u32 filter_tap(const struct view *v, const struct cursor *at)
{
    return ((v->d.tap + at->d * v->d.tap_step) * KILN_FILTER_H + v->h.tap + at->h * v->h.tap_step) *
               KILN_FILTER_W +
           v->w.tap + at->w * v->w.tap_step;
}

#if FORWARD

#define RIGHT_ALONG 1

KILN_INLINE void copy_right(struct landing *landing, kiln_tiles shared, kiln_u32 to,
                            KILN_GLOBAL const kiln_value *weights, const struct view *v,
                            const struct place *tile, const struct cursor *at)
{
    kiln_u32 chunk = kiln_item() % K_CHUNKS, row = kiln_item() / K_CHUNKS;
    kiln_u32 from = (tile->group * KILN_K + tile->column + row) * W_ROW +
                    filter_tap(v, at) * KILN_C + at->c + chunk * KILN_CHUNK;
    int is_there = !(KILN_C % KILN_TILE_K) || at->c + chunk * KILN_CHUNK < KILN_C;
    KILN_UNROLLED
    for (int i = 0; i < RIGHT_PASSES; i++) {
        kiln_u32 beyond = i * (THREADS / K_CHUNKS);
        if (HAS_CHUNK(i, KILN_TILE_N * K_CHUNKS))
            COPY16(&landing->right[i], shared, to + along(row + beyond, chunk),
                   weights + (from + beyond * W_ROW),
                   is_there && (!(KILN_K % KILN_TILE_N) || tile->column + row + beyond < KILN_K));
    }
}

#else

#define RIGHT_ALONG 0

KILN_INLINE void copy_right(struct landing *landing, kiln_tiles shared, kiln_u32 to,
                            KILN_GLOBAL const kiln_value *weights, const struct view *v,
                            const struct place *tile, const struct cursor *at)
{
    kiln_u32 chunk = across_chunk(N_CHUNKS), step = across_step(N_CHUNKS);
    kiln_u32 c = tile->column + chunk * KILN_CHUNK;
    kiln_u32 from = (tile->group * KILN_K + at->c + step) * W_ROW + filter_tap(v, at) * KILN_C + c;
    int is_there = !(KILN_C % KILN_TILE_N) || c < KILN_C;
    KILN_UNROLLED
    for (int i = 0; i < RIGHT_PASSES; i++) {
        kiln_u32 beyond = BEYOND(i, N_CHUNKS);
        if (HAS_ACROSS(i, N_CHUNKS))
            COPY16(&landing->right[i], shared, to + across(step + beyond, chunk, KILN_TILE_N),
                   weights + (from + beyond * W_ROW),
                   is_there && (!(KILN_K % KILN_TILE_K) || at->c + step + beyond < KILN_K));
    }
}

#endif

#else /* WEIGHTS */

#define RIGHT_ALONG 0

/* y is the left matrix transposed. */
KILN_INLINE void copy_left(struct landing *landing, kiln_tiles shared, kiln_u32 to,
                           KILN_GLOBAL const kiln_value *y, const struct place *tile,
                           kiln_u32 pixel, kiln_u32 pixels)
{
    kiln_u32 chunk = across_chunk(M_CHUNKS), step = across_step(M_CHUNKS);
    kiln_u32 k = tile->row + chunk * KILN_CHUNK;
    kiln_u32 from = (pixel + step) * Y_PIXEL + tile->group * KILN_K + k;
    int is_there = !(KILN_K % KILN_TILE_M) || k < KILN_K;
    KILN_UNROLLED
    for (int i = 0; i < LEFT_PASSES; i++) {
        kiln_u32 beyond = BEYOND(i, M_CHUNKS);
        if (HAS_ACROSS(i, M_CHUNKS))
            COPY16(&landing->left[i], shared, to + across(step + beyond, chunk, KILN_TILE_M),
                   y + (from + beyond * Y_PIXEL), is_there && pixel + step + beyond < pixels);
    }
}

/* A column is a tap and a chunk of channels. */
struct column {
    int d, h, w;   /* pixel of x at pixel 0 of y */
    kiln_u32 from; /* offset in x from that pixel */
    int is_there;
};

KILN_INLINE struct column find_column(const struct place *tile)
{
    struct column c;
    kiln_u32 column = tile->column + across_chunk(N_CHUNKS) * KILN_CHUNK;
    kiln_u32 tap = column / KILN_C;
    c.w = (int)(tap % KILN_FILTER_W) * KILN_DILATION_W - KILN_PAD_W;
    c.h = (int)(tap / KILN_FILTER_W % KILN_FILTER_H) * KILN_DILATION_H - KILN_PAD_H;
    c.d = (int)(tap / (KILN_FILTER_W * KILN_FILTER_H)) * KILN_DILATION_D - KILN_PAD_D;
    c.from = tile->group * KILN_C + column % KILN_C;
    c.is_there = column < W_ROW;
    return c;
}

KILN_INLINE void copy_right(struct landing *landing, kiln_tiles shared, kiln_u32 to,
                            KILN_GLOBAL const kiln_value *x, const struct view *v,
                            const struct column *column, kiln_u32 pixel, kiln_u32 pixels)
{
    kiln_u32 chunk = across_chunk(N_CHUNKS), step = across_step(N_CHUNKS);
    KILN_UNROLLED
    for (int i = 0; i < RIGHT_PASSES; i++) {
        kiln_u32 row = step + BEYOND(i, N_CHUNKS);
        struct pixel p = pixel_at(v, pixel + row);
        int d = (int)p.d * KILN_STRIDE_D + column->d;
        int h = (int)p.h * KILN_STRIDE_H + column->h;
        int w = (int)p.w * KILN_STRIDE_W + column->w;
        int is_there = column->is_there && pixel + row < pixels && inside(d, KILN_IN_D) &&
                       inside(h, KILN_IN_H) && inside(w, KILN_IN_W);
        kiln_u32 from = (kiln_u32)((((int)p.n * KILN_IN_D + d) * KILN_IN_H + h) * KILN_IN_W + w) *
                            KILN_X_PIXEL +
                        column->from;
        if (HAS_ACROSS(i, N_CHUNKS))
            COPY16(&landing->right[i], shared, to + across(row, chunk, KILN_TILE_N), x + from,
                   is_there);
    }
}

#endif

/* Warps that multiply together compute WARP_M x WARP_N of the tile.  An item takes part in blocks
 * of 16 rows x KILN_BLOCK_N columns; block i starts at row block_row(i). */
#if KILN_WIDE
#define TEAM 4
#define BLOCK_ROWS 64 /* each warp has 16 of them */
#else
#define TEAM 1
#define BLOCK_ROWS 16
#endif
#define WARP_M (KILN_TILE_M * TEAM / KILN_WARPS_M)
#define WARP_N (KILN_TILE_N / KILN_WARPS_N)
#define BLOCKS_M (WARP_M / BLOCK_ROWS)
#define BLOCKS_N (WARP_N / KILN_BLOCK_N)

KILN_INLINE kiln_u32 first_row(void)
{
    return kiln_item() / (KILN_WAVE * TEAM) / KILN_WARPS_N * WARP_M;
}
KILN_INLINE kiln_u32 first_column(void)
{
    return kiln_item() / (KILN_WAVE * TEAM) % KILN_WARPS_N * WARP_N;
}
KILN_INLINE kiln_u32 block_row(int block)
{
    return first_row() + block * BLOCK_ROWS + kiln_item() / KILN_WAVE % TEAM * 16;
}

#if KILN_WIDE

#define KILN_WIDE_COLUMNS KILN_WIDE
#if WEIGHTS /* literals, because they become part of an instruction's text */
#define KILN_LEFT_TURNED 1
#else
#define KILN_LEFT_TURNED 0
#endif
#if RIGHT_ALONG
#define KILN_RIGHT_TURNED 0
#else
#define KILN_RIGHT_TURNED 1
#endif
#include "kiln/wide_products.h"

KILN_INLINE kiln_wide_operand operand_of(kiln_tiles shared, kiln_u32 at, int turned, kiln_u32 first,
                                         int step)
{
    return turned ? kiln_wide_turned(shared, at + first / 64 * (KILN_TILE_K * 128) + step * 2048,
                                     KILN_TILE_K * 128)
                  : kiln_wide_plain(shared, at + first * (KILN_TILE_K * 2) + step * 32,
                                    KILN_TILE_K * 2);
}

KILN_INLINE void multiply_tile(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared, kiln_u32 left,
                               kiln_u32 right)
{
    kiln_wide_begin();
    KILN_UNROLLED
    for (int step = 0; step < KILN_TILE_K / 16; step++) {
        kiln_wide_operand b = operand_of(shared, right, KILN_RIGHT_TURNED, first_column(), step);
        KILN_UNROLLED
        for (int i = 0; i < BLOCKS_M; i++)
            kiln_multiply_wide(
                sum[i], operand_of(shared, left, KILN_LEFT_TURNED, first_row() + i * 64, step), b);
    }
    kiln_wide_end();
}

#else

#if KILN_STAGED

struct operands { /* of one step along the reduction */
    kiln_operand left[BLOCKS_M], right[BLOCKS_N];
};

KILN_INLINE void load_operand(kiln_operand *ret, kiln_tiles shared, kiln_u32 from, kiln_u32 row,
                              int step)
{
    kiln_u32 lane = kiln_item() % KILN_WAVE;
    KILN_UNROLLED
    for (int i = 0; i < KILN_OPERAND_CHUNKS; i++)
        kiln_load_operand(
            ret, i, shared,
            from + along(row + lane % 16, step * (KILN_STEP / 8) + kiln_operand_chunk(lane) + i));
}

KILN_INLINE void load_operands(struct operands *ret, kiln_tiles shared, kiln_u32 left,
                               kiln_u32 right, int step)
{
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M; i++)
        load_operand(&ret->left[i], shared, left, block_row(i), step);
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_N; i++)
        load_operand(&ret->right[i], shared, right, first_column() + i * 16, step);
}

#define MULTIPLY(d, a, b, shared) kiln_multiply(&(d), &(a), &(b), shared)

#else

struct operands { /* of one step of 16 (TF32: 8) along the reduction */
    kiln_u32 left[BLOCKS_M][4];
    kiln_u32 right[BLOCKS_N][2];
};

#if KILN_TYPE == 0

KILN_INLINE void round_fragments(kiln_u32 r[4])
{
    KILN_UNROLLED
    for (int i = 0; i < 4; i++)
        r[i] = kiln_tf32(kiln_bits_float(r[i]));
}

/* Transposed loads exchange elements of two bytes, so TF32 is read one element at a time. */
KILN_INLINE kiln_u32 load_turned(kiln_tiles shared, kiln_u32 from, kiln_u32 step, kiln_u32 at,
                                 kiln_u32 width)
{
    return kiln_tf32(kiln_tiles_get4(shared, from + across(step, at / 4, width) + at % 4 * 4));
}

#define LOAD_LEFT_TURNED(r, block)                                            \
    KILN_UNROLLED                                                             \
    for (int part = 0; part < 4; part++)                                      \
    (r)[part] = load_turned(shared, left, step * 8 + lane % 4 + part / 2 * 4, \
                            row + (block)*16 + lane / 4 + part % 2 * 8, KILN_TILE_M)
#define LOAD_RIGHT_TURNED(r, block)                                            \
    KILN_UNROLLED                                                              \
    for (int part = 0; part < 4; part++)                                       \
    (r)[part] = load_turned(shared, right, step * 8 + lane % 4 + part % 2 * 4, \
                            column + ((block) + part / 2) * 8 + lane / 4, KILN_TILE_N)
#define ROUND_FRAGMENTS(r) round_fragments(r)

#else

#define LOAD_LEFT_TURNED(r, block)                                              \
    kiln_load8x8_turned(r, shared,                                              \
                        left + across(step * 16 + (lane & 7) + (lane >> 4) * 8, \
                                      row / 8 + (block)*2 + (lane >> 3 & 1), KILN_TILE_M))
#define LOAD_RIGHT_TURNED(r, block) \
    kiln_load8x8_turned(            \
        r, shared,                  \
        right + across(step * 16 + (lane & 15), column / 8 + (block) + (lane >> 4), KILN_TILE_N))
#define ROUND_FRAGMENTS(r) ((void)0)

#endif

KILN_INLINE void load_operands(struct operands *ret, kiln_tiles shared, kiln_u32 left,
                               kiln_u32 right, int step)
{
    kiln_u32 lane = kiln_item() % 32, row = first_row(), column = first_column();
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M; i++) {
#if WEIGHTS
        LOAD_LEFT_TURNED(ret->left[i], i);
#else
        kiln_load8x8(ret->left[i], shared,
                     left + along(row + i * 16 + (lane & 15), step * 2 + (lane >> 4)));
        ROUND_FRAGMENTS(ret->left[i]);
#endif
    }
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_N; i += 2) {
        kiln_u32 both[4];
#if RIGHT_ALONG
        kiln_load8x8(both, shared,
                     right + along(column + i * 8 + (lane & 7) + (lane >> 4) * 8,
                                   step * 2 + (lane >> 3 & 1)));
        ROUND_FRAGMENTS(both);
#else
        LOAD_RIGHT_TURNED(both, i);
#endif
        ret->right[i][0] = both[0];
        ret->right[i][1] = both[1];
        ret->right[i + 1][0] = both[2];
        ret->right[i + 1][1] = both[3];
    }
}

#if KILN_TYPE == 0
#define MULTIPLY(d, a, b, shared) kiln_multiply16x8x8(d, a, b, shared)
#else
#define MULTIPLY(d, a, b, shared) kiln_multiply16x8x16(d, a, b, shared)
#endif

#endif

KILN_INLINE void multiply(kiln_sums sum[BLOCKS_M][BLOCKS_N], const struct operands *operands,
                          kiln_tiles shared)
{
    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M; i++) {
        KILN_UNROLLED
        for (int j = 0; j < BLOCKS_N; j++)
            MULTIPLY(sum[i][j], operands->left[i], operands->right[j], shared);
    }
}

KILN_INLINE void multiply_tile(kiln_sums sum[BLOCKS_M][BLOCKS_N], kiln_tiles shared, kiln_u32 left,
                               kiln_u32 right)
{
#if KILN_STAGED
    KILN_UNROLLED
    for (int step = 0; step < KILN_TILE_K / KILN_STEP; step++) {
        struct operands operands;
        load_operands(&operands, shared, left, right, step);
        multiply(sum, &operands, shared);
    }
#else
    struct operands operands[2]; /* one is loaded while the other is multiplied */
    load_operands(&operands[0], shared, left, right, 0);
    KILN_UNROLLED
    for (int step = 0; step < KILN_TILE_K / KILN_STEP; step++) {
        if (step + 1 < KILN_TILE_K / KILN_STEP)
            load_operands(&operands[(step + 1) & 1], shared, left, right, step + 1);
        multiply(sum, &operands[step & 1], shared);
    }
#endif
}

#endif

#define RESULT_BARRIER() kiln_barrier()
#include "kiln/conv_mma_result.h"

/* Stages that are not being read are copied ahead.  Wide products read two tiles at once. */
#if KILN_WIDE
#define AHEAD (KILN_STAGES - 2)
#else
#define AHEAD (KILN_STAGES - 1)
#endif

#if DATA
#define KERNEL conv_implicit_gemm_mma_backward_data
#elif FORWARD
#define KERNEL conv_implicit_gemm_mma_forward
#else
#define KERNEL conv_implicit_gemm_mma_backward_weights
#endif

/* |left|, |right| and |to| are, forward: x, w, y; backward data: y, w, x; backward weights: y, x,
 * w.  A work group sums |slice| tiles of the reduction. */
KILN_KERNEL_OCCUPYING(THREADS, KILN_BLOCKS)
void KERNEL(KILN_GLOBAL const kiln_value *KILN_RESTRICT left,
            KILN_GLOBAL const kiln_value *KILN_RESTRICT right, KILN_GLOBAL RESULT *KILN_RESTRICT to,
            kiln_u32 n, kiln_u32 slice)
{
    KILN_TILES(shared);
    kiln_sums sum[BLOCKS_M][BLOCKS_N];
    struct landing landing;
    struct place tile;
    struct view v;
    if (!place_of(kiln_group(), n, slice, &tile, &v))
        return;

#if WEIGHTS
    struct column column = find_column(&tile);
    kiln_u32 pixel = tile.first * KILN_TILE_K, pixels = n * OUT_PIXELS;
#define COPY_TILE(stage)                                                                  \
    do {                                                                                  \
        kiln_u32 at = (stage)*STAGE_BYTES;                                                \
        copy_left(&landing, shared, at, left, &tile, pixel, pixels);                      \
        copy_right(&landing, shared, at + LEFT_BYTES, right, &v, &column, pixel, pixels); \
        pixel += KILN_TILE_K;                                                             \
    } while (0)
#else
    struct rows mine;
    find_rows(&v, &tile, &mine);
    struct cursor cursor = cursor_at(&v, tile.first);
#define COPY_TILE(stage)                                                          \
    do {                                                                          \
        kiln_u32 at = (stage)*STAGE_BYTES;                                        \
        copy_left(&landing, shared, at, left, &v, &mine, &cursor);                \
        copy_right(&landing, shared, at + LEFT_BYTES, right, &v, &tile, &cursor); \
        advance(&v, &cursor);                                                     \
    } while (0)
#endif

    KILN_UNROLLED
    for (int i = 0; i < BLOCKS_M * BLOCKS_N * KILN_SUMS; i++)
        sum[i / (BLOCKS_N * KILN_SUMS)][i / KILN_SUMS % BLOCKS_N][i % KILN_SUMS] = 0;

#if KILN_STAGED
    if (tile.steps > 0) {
        COPY_TILE(0);
        put_tile(shared, 0, &landing);
    }
    for (kiln_u32 i = 0; i < tile.steps; i++) {
        kiln_u32 stage = i % KILN_STAGES * STAGE_BYTES;
        if (i + 1 < tile.steps)
            COPY_TILE(0);
        kiln_barrier(); /* this tile has arrived, and all warps have read the previous one */
        multiply_tile(sum, shared, stage, stage + LEFT_BYTES);
        if (KILN_STAGES == 1)
            kiln_barrier();
        if (i + 1 < tile.steps)
            put_tile(shared, (i + 1) % KILN_STAGES * STAGE_BYTES, &landing);
    }
#else
    KILN_UNROLLED
    for (int i = 0; i < AHEAD; i++) {
        if ((kiln_u32)i < tile.steps)
            COPY_TILE(i);
        kiln_copies_end();
    }
    kiln_u32 stage = 0, next = AHEAD;
#if KILN_WIDE
#define COPIES_ARE_THERE() kiln_copies_publish()
#define BEGIN_WIDE() multiply_tile(sum, shared, stage *STAGE_BYTES, stage *STAGE_BYTES + LEFT_BYTES)
#define END_TILE() kiln_wide_wait(1)
    if (tile.steps == 0)
        goto summed; /* no branch may join the products while they run */
#pragma unroll 1
#else
#define COPIES_ARE_THERE() ((void)0)
#define BEGIN_WIDE() ((void)0)
#define END_TILE() multiply_tile(sum, shared, stage *STAGE_BYTES, stage *STAGE_BYTES + LEFT_BYTES)
#endif
    for (kiln_u32 i = 0; i < tile.steps; i++) {
        kiln_copies_wait(AHEAD - 1);
        COPIES_ARE_THERE();
        /* All items' copies of this tile have arrived, and all warps have read the old tile in the
         * stage that is refilled next. */
        kiln_barrier();
        BEGIN_WIDE();
        if (i + AHEAD < tile.steps)
            COPY_TILE(next);
        kiln_copies_end();
        END_TILE();
        stage = stage + 1 == KILN_STAGES ? 0 : stage + 1;
        next = next + 1 == KILN_STAGES ? 0 : next + 1;
    }
#if KILN_WIDE
    kiln_wide_wait(0);
summed:;
#endif
#endif

#if STORES_SUMS
    store(to + (kiln_u64)tile.slice * result_size(n), &v, &tile, sum);
#else
    kiln_barrier();
    store(to, shared, &v, &tile, sum);
#endif
}
