/* SPDX-License-Identifier: MIT */
/*
 * Matrix cores of AMD GPUs: the functions that matrix_cores.h lists.  That header includes this
 * one.
 *
 *   KILN_CORES  2  MFMA of CDNA, v_mfma_f32_16x16x16: waves of 64
 *               3  WMMA of RDNA 3, v_wmma_f32_16x16x16: waves of 32
 *               4  WMMA of RDNA 4: the instruction of RDNA 3 with another layout
 *   KILN_PAIRS  1  gfx908's MFMA takes two bf16 values from an item (v_mfma_f32_16x16x8); the
 *                  others take four
 *
 * An item holds a part of row lane % 16 of the left operand, and of column lane % 16 of the right
 * one: 8 or 16 elements that are contiguous along the reduction.  They begin with chunk
 * kiln_operand_chunk(lane) of the step.  The instructions number these elements in another order.
 * This order is the same for both operands, so the sum does not change.
 * Source of the layouts: AMD's ISA guides of CDNA (MFMA), RDNA 3 and RDNA 4 (WMMA).
 *
 *   kiln_chunk, kiln_fetch16(chunk, from, is_there)
 *                                     loads 16 bytes into registers; zeros if is_there is 0
 *   kiln_tiles_put16(tiles, at, chunk)
 *   kiln_pair(low, high, i)           packs element i of both chunks
 *   kiln_load_operand(r, part, tiles, at)
 *                                     loads chunk |part| of an operand
 *   kiln_multiply(d, left, right, tiles)
 */
#ifndef KILN_MATRIX_CORES_AMD_H
#define KILN_MATRIX_CORES_AMD_H

#define KILN_STAGED 1 /* copies pass through registers */
#define KILN_BLOCK_N 16

#if KILN_CORES == 2
#define KILN_WAVE 64
#define KILN_STEP 32
#define KILN_OPERAND_CHUNKS 1
#define KILN_SUMS 4
#define KILN_RUN 4
#define KILN_PART (KILN_PAIRS ? 2 : 4)
#else
#define KILN_WAVE 32
#define KILN_STEP 16
#define KILN_SUMS 8
#if KILN_CORES == 3
#define KILN_OPERAND_CHUNKS 2
#define KILN_RUN 1
#else
#define KILN_OPERAND_CHUNKS 1
#define KILN_RUN 8
#endif
#define KILN_PART (KILN_OPERAND_CHUNKS * 8)
#endif
/* An instruction takes KILN_PART elements of each operand from an item. */
#define KILN_PARTS (KILN_OPERAND_CHUNKS * 8 / KILN_PART)
#define KILN_OPERAND_WORDS (KILN_OPERAND_CHUNKS * 4)

/* On RDNA 3, both halves of a wave hold the same operands. */
KILN_INLINE kiln_u32 kiln_operand_chunk(kiln_u32 lane) { return KILN_CORES == 3 ? 0 : lane / 16; }

/* The position of an item's sum i in its block of 16 x 16.  MFMA and RDNA 4's WMMA get the two
 * operands in exchanged order.  This transposes the block, so that an item's sums are contiguous in
 * a row. */
KILN_INLINE kiln_u32 kiln_sum_row(kiln_u32 lane, kiln_u32 i)
{
    return KILN_CORES == 3 ? i * 2 + lane / 16 : lane % 16;
}
KILN_INLINE kiln_u32 kiln_sum_column(kiln_u32 lane, kiln_u32 i)
{
    return KILN_CORES == 3 ? lane % 16 : lane / 16 * KILN_SUMS + i;
}

#if defined(KILN_HIP)

typedef unsigned char *kiln_tiles;
typedef kiln_u32 kiln_chunk __attribute__((ext_vector_type(4)));
typedef kiln_u32 kiln_operand __attribute__((ext_vector_type(KILN_OPERAND_WORDS)));
typedef float kiln_sums __attribute__((ext_vector_type(KILN_SUMS)));
#define KILN_UNROLLED KILN_UNROLL
#define KILN_TILES(name)                                                               \
    __attribute__((shared, aligned(16))) unsigned char name##_bytes[KILN_TILES_BYTES]; \
    const kiln_tiles name = name##_bytes
#define KILN_KERNEL_OCCUPYING(items, groups) KILN_KERNEL(items)

KILN_INLINE void kiln_fetch16(kiln_chunk *chunk, const kiln_value *from, int is_there)
{
    kiln_chunk v = { 0, 0, 0, 0 };
    if (is_there)
        v = *(const kiln_chunk *)from;
    *chunk = v;
}
KILN_INLINE void kiln_tiles_put16(kiln_tiles tiles, kiln_u32 at, const kiln_chunk *chunk)
{
    *(kiln_chunk *)(tiles + at) = *chunk;
}
KILN_INLINE void kiln_load_operand(kiln_operand *r, int part, kiln_tiles tiles, kiln_u32 at)
{
    kiln_chunk v = *(const kiln_chunk *)(tiles + at);
    (*r)[part * 4] = v[0];
    (*r)[part * 4 + 1] = v[1];
    (*r)[part * 4 + 2] = v[2];
    (*r)[part * 4 + 3] = v[3];
}

#if KILN_TYPE == 1
typedef _Float16 kiln_element;
#else
typedef short kiln_element;
#endif
typedef kiln_element kiln_elements __attribute__((ext_vector_type(KILN_PART)));
struct kiln_parts {
    kiln_elements part[KILN_PARTS];
};

#if KILN_CORES == 2 && KILN_TYPE == 1
#define KILN_MULTIPLY(a, b, d) __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, d, 0, 0, 0)
#elif KILN_CORES == 2 && KILN_PAIRS
#define KILN_MULTIPLY(a, b, d) __builtin_amdgcn_mfma_f32_16x16x8bf16(a, b, d, 0, 0, 0)
#elif KILN_CORES == 2
#define KILN_MULTIPLY(a, b, d) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, d, 0, 0, 0)
#elif KILN_CORES == 3 && KILN_TYPE == 1
#define KILN_MULTIPLY(a, b, d) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, d)
#elif KILN_CORES == 3
#define KILN_MULTIPLY(a, b, d) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, d)
#elif KILN_TYPE == 1
#define KILN_MULTIPLY(a, b, d) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, d)
#else
#define KILN_MULTIPLY(a, b, d) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, d)
#endif

KILN_INLINE void kiln_multiply(kiln_sums *d, const kiln_operand *left, const kiln_operand *right,
                               kiln_tiles tiles)
{
    struct kiln_parts a = __builtin_bit_cast(struct kiln_parts, KILN_CORES == 3 ? *left : *right);
    struct kiln_parts b = __builtin_bit_cast(struct kiln_parts, KILN_CORES == 3 ? *right : *left);
    (void)tiles;
    KILN_UNROLLED
    for (int i = 0; i < KILN_PARTS; i++)
        *d = KILN_MULTIPLY(a.part[i], b.part[i], *d);
}

#if KILN_TYPE == 1
KILN_INLINE kiln_u32 kiln_rounded(float v)
{
    return __builtin_bit_cast(unsigned short, (_Float16)v);
}
#else
KILN_INLINE kiln_u32 kiln_rounded(float v) { return kiln_round(v); }
#endif
KILN_INLINE void kiln_tiles_put2(kiln_tiles tiles, kiln_u32 at, kiln_u32 v)
{
    *(unsigned short *)(tiles + at) = (unsigned short)v;
}
KILN_INLINE void kiln_tiles_put4(kiln_tiles tiles, kiln_u32 at, kiln_u32 v)
{
    *(kiln_u32 *)(tiles + at) = v;
}
KILN_INLINE void kiln_tiles_store16(kiln_value *to, kiln_tiles tiles, kiln_u32 at)
{
    *(kiln_chunk *)to = *(const kiln_chunk *)(tiles + at);
}
typedef float kiln_float2 __attribute__((ext_vector_type(2)));
KILN_INLINE void kiln_store_floats(float *to, float a, float b)
{
    kiln_float2 both = { a, b };
    *(kiln_float2 *)to = both;
}

#elif defined(KILN_OPENCL)

typedef kiln_u32 kiln_chunk[4];
typedef kiln_u32 kiln_operand[KILN_OPERAND_WORDS];
typedef float kiln_sums[KILN_SUMS];

KILN_DEVICE void kiln_fetch16(kiln_chunk *chunk, __global const kiln_value *from, int is_there)
{
    for (int i = 0; i < 4; i++)
        (*chunk)[i] = is_there ? ((__global const kiln_u32 *)from)[i] : 0;
}
KILN_DEVICE void kiln_tiles_put16(kiln_tiles tiles, kiln_u32 at, const kiln_chunk *chunk)
{
    for (int i = 0; i < 4; i++)
        ((__local kiln_u32 *)(tiles + at))[i] = (*chunk)[i];
}
KILN_DEVICE void kiln_load_operand(kiln_operand *r, int part, kiln_tiles tiles, kiln_u32 at)
{
    for (int i = 0; i < 4; i++)
        (*r)[part * 4 + i] = ((__local const kiln_u32 *)(tiles + at))[i];
}

/* The matrix layouts of the instruction-set documents of CDNA, RDNA 3 and RDNA 4.  KILN_GIVER is
 * the lane that supplies element |k| of a row of the first operand (of a column of the second one).
 * KILN_GIVEN is the element's index in the lane's part.  KILN_GETTER is the lane that receives an
 * element of the result, and KILN_GOT the index of this element among the lane's sums.  On RDNA 3,
 * each half of the wave needs its own copy of the operands, and |half| selects the copy. */
#if KILN_CORES == 2
#define KILN_DEPTH (4 * KILN_PART)
#define KILN_GIVER(row, k, half) ((row) + 16 * ((k) / KILN_PART))
#define KILN_GIVEN(k) ((k) % KILN_PART)
#define KILN_GETTER(row, column) ((column) + 16 * ((row) / 4))
#define KILN_GOT(row) ((row) % 4)
#elif KILN_CORES == 3
#define KILN_DEPTH 16
#define KILN_GIVER(row, k, half) ((row) + 16 * (half))
#define KILN_GIVEN(k) (k)
#define KILN_GETTER(row, column) ((column) + 16 * ((row) % 2))
#define KILN_GOT(row) ((row) / 2)
#else
#define KILN_DEPTH 16
#define KILN_GIVER(row, k, half) ((row) + 16 * ((k) / 8))
#define KILN_GIVEN(k) ((k) % 8)
#define KILN_GETTER(row, column) ((column) + 16 * ((row) / 8))
#define KILN_GOT(row) ((row) % 8)
#endif

/* Emulates one instruction: d += first * second.  |first| and |second| are the mailboxes' contents;
 * the instruction uses part |part| of each. */
KILN_DEVICE void kiln_emulate(float *d, __local const kiln_u32 *first,
                              __local const kiln_u32 *second, int part)
{
    kiln_u32 lane = kiln_item() % KILN_WAVE;
    for (kiln_u32 row = 0; row < 16; row++) {
        kiln_u32 column = lane % 16;
        if (KILN_GETTER(row, column) != lane)
            continue;
        for (kiln_u32 k = 0; k < KILN_DEPTH; k++) {
            kiln_u32 at = part * KILN_PART + KILN_GIVEN(k);
            kiln_u32 a = KILN_GIVER(row, k, lane / 16) * (KILN_MAIL_WORDS * 2) + at;
            kiln_u32 b = KILN_GIVER(column, k, lane / 16) * (KILN_MAIL_WORDS * 2) + at;
            d[KILN_GOT(row)] += kiln_mailed(first, a) * kiln_mailed(second, b);
        }
    }
}

KILN_DEVICE void kiln_multiply(kiln_sums *d, const kiln_operand *left, const kiln_operand *right,
                               kiln_tiles tiles)
{
    __local kiln_u32 *mail = KILN_MAIL(tiles), *mine = mail + kiln_item() * KILN_MAIL_WORDS;
    __local kiln_u32 *wave = mail + kiln_item() / KILN_WAVE * (KILN_WAVE * KILN_MAIL_WORDS);
    __local kiln_u32 *turned = wave + KILN_OPERAND_WORDS;
    for (int i = 0; i < KILN_OPERAND_WORDS; i++) {
        mine[i] = (*left)[i];
        mine[KILN_OPERAND_WORDS + i] = (*right)[i];
    }
    kiln_barrier();
    for (int part = 0; part < KILN_PARTS; part++)
        kiln_emulate(*d, KILN_CORES == 3 ? wave : turned, KILN_CORES == 3 ? turned : wave, part);
    kiln_barrier();
}
KILN_DEVICE void kiln_tiles_put2(kiln_tiles tiles, kiln_u32 at, kiln_u32 v)
{
    *(__local ushort *)(tiles + at) = (ushort)v;
}

#endif

KILN_INLINE kiln_u32 kiln_pair(const kiln_chunk *low, const kiln_chunk *high, int i)
{
    kiln_u32 a = (*low)[i / 2], b = (*high)[i / 2];
    return i % 2 ? a >> 16 | (b & 0xffff0000u) : (a & 0xffffu) | b << 16;
}
#if defined(KILN_HIP)
KILN_INLINE kiln_u32 kiln_pack(float low, float high)
{
    return kiln_rounded(low) | kiln_rounded(high) << 16;
}
#endif
#endif
