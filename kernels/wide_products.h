/* SPDX-License-Identifier: MIT */
/*
 * Products of a warp group (four warps) with both operands in shared memory: wgmma of sm_90a.
 * Included as "kiln/wide_products.h".  A product has 64 rows, KILN_WIDE_COLUMNS (32, 64, 128,
 * 192 or 256) columns and 16 steps (TF32: 8) of the reduction.  wgmma would truncate a float to
 * TF32, so the tensor maps round fp32 operands while they copy them.  TF32 operands are never
 * transposed.  OpenCL has no such instruction, so there the functions read local memory with the
 * documented layouts.  This is slow, and only for tests.
 *
 * An operand is stored in rows of 128 (or 64) bytes, in blocks of eight rows.  The number of each
 * 16-byte chunk is XORed with its row's number, so an operand must start at a multiple of eight
 * rows.  A plain operand has one stored row for each row.  A transposed ("turned") operand has one
 * stored row of 64 elements for each step.  Longer rows continue in further panels.  Source: PTX
 * ISA, "Asynchronous warpgroup-level matrix shared memory layout".
 *
 *   KILN_LEFT_TURNED, KILN_RIGHT_TURNED  0 or 1, defined before this is included
 *   kiln_wide_plain(tiles, at, row_bytes), kiln_wide_turned(tiles, at, panel_bytes)
 *                               operands at byte |at|: with rows of |row_bytes|, or with panels
 *                               |panel_bytes| apart
 *   kiln_multiply_wide(d, a, b) starts d += a * b.  d[j] is the warp's 16 x 8 fragment, in the
 *                               layout of kiln_multiply16x8x16: rows from 16 * (warp % 4) on,
 *                               columns from 8 * j on
 *   kiln_multiply_wide_held(d, a, b)
 *                               the same in TF32 on CUDA, with the left operand in registers: the
 *                               warp's 16 x 8 fragment, in the layout of kiln_multiply16x8x8.
 *                               These registers must not change until the product has ended
 *   kiln_wide_begin()           call it before products, after writes to sums or shared memory
 *   kiln_wide_end()             closes a group of products
 *   kiln_wide_wait(n)           waits for all but n groups; until then sums must not be used
 *   kiln_copies_publish()       makes this item's copies visible to products
 */
#ifndef KILN_WIDE_PRODUCTS_H
#define KILN_WIDE_PRODUCTS_H

#include "kiln/matrix_cores.h"

#if defined(KILN_CUDA)

typedef unsigned long long kiln_wide_operand;

KILN_INLINE kiln_wide_operand kiln_wide_operand_of(kiln_u32 at, kiln_u32 beside, kiln_u32 next,
                                                   kiln_u32 exchange)
{
    return (kiln_wide_operand)(at >> 4 & 0x3fff) | (kiln_wide_operand)(beside >> 4) << 16 |
           (kiln_wide_operand)(next >> 4) << 32 | (kiln_wide_operand)exchange << 62;
}
KILN_INLINE kiln_wide_operand kiln_wide_plain(kiln_tiles tiles, kiln_u32 at, kiln_u32 row_bytes)
{
    return kiln_wide_operand_of(tiles + at, 16, row_bytes * 8, row_bytes == 128 ? 1 : 2);
}
KILN_INLINE kiln_wide_operand kiln_wide_turned(kiln_tiles tiles, kiln_u32 at, kiln_u32 panel_bytes)
{
    return kiln_wide_operand_of(tiles + at, panel_bytes, 1024, 1);
}

KILN_INLINE void kiln_wide_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
KILN_INLINE void kiln_wide_end(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
#define kiln_wide_wait(left) \
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory")
KILN_INLINE void kiln_copies_publish(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* TEN(t) lists the ten operand names from %t0 to %t9. */
#define TEN(t)                                                                             \
    "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t \
    "8, %" #t "9, "
#define SIXTY TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5)
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#if KILN_WIDE_COLUMNS == 32
#define SUM_NAMES TEN() "%10, %11, %12, %13, %14, %15"
#define OPERAND_NAMES "%16, %17"
#define HELD_NAMES "{%16, %17, %18, %19}, %20"
#define SUMS(d) FOUR(d)
#elif KILN_WIDE_COLUMNS == 64
#define SUM_NAMES TEN() TEN(1) TEN(2) "%30, %31"
#define OPERAND_NAMES "%32, %33"
#define HELD_NAMES "{%32, %33, %34, %35}, %36"
#define SUMS(d) EIGHT(d)
#elif KILN_WIDE_COLUMNS == 128
#define SUM_NAMES SIXTY "%60, %61, %62, %63"
#define OPERAND_NAMES "%64, %65"
#define HELD_NAMES "{%64, %65, %66, %67}, %68"
#define SUMS(d) EIGHT(d), EIGHT((d) + 8)
#elif KILN_WIDE_COLUMNS == 192
#define SUM_NAMES SIXTY TEN(6) TEN(7) TEN(8) "%90, %91, %92, %93, %94, %95"
#define OPERAND_NAMES "%96, %97"
#define HELD_NAMES "{%96, %97, %98, %99}, %100"
#define SUMS(d) EIGHT(d), EIGHT((d) + 8), EIGHT((d) + 16)
#elif KILN_WIDE_COLUMNS == 256
#define SIXTY_MORE TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11)
#define SUM_NAMES SIXTY SIXTY_MORE "%120, %121, %122, %123, %124, %125, %126, %127"
#define OPERAND_NAMES "%128, %129"
#define HELD_NAMES "{%128, %129, %130, %131}, %132"
#define SUMS(d) EIGHT(d), EIGHT((d) + 8), EIGHT((d) + 16), EIGHT((d) + 24)
#else
#error "KILN_WIDE_COLUMNS must be 32, 64, 128, 192 or 256"
#endif
#define BLOCK_SUMS(s) "+f"((s)[0]), "+f"((s)[1]), "+f"((s)[2]), "+f"((s)[3])
#define FOUR(d) BLOCK_SUMS((d)[0]), BLOCK_SUMS((d)[1]), BLOCK_SUMS((d)[2]), BLOCK_SUMS((d)[3])
#define EIGHT(d) FOUR(d), FOUR((d) + 4)
#if KILN_TYPE == 0
#define TYPES "k8.f32.tf32.tf32 {"
#define TURNED "" /* the instruction has no operands for transposing */
#else
#define TURNED ", " TEXT_OF(KILN_LEFT_TURNED) ", " TEXT_OF(KILN_RIGHT_TURNED)
#if KILN_TYPE == 1
#define TYPES "k16.f32.f16.f16 {"
#else
#define TYPES "k16.f32.bf16.bf16 {"
#endif
#endif

KILN_INLINE void kiln_multiply_wide(float d[KILN_WIDE_COLUMNS / 8][4], kiln_wide_operand a,
                                    kiln_wide_operand b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n" TEXT_OF(
                     KILN_WIDE_COLUMNS) TYPES SUM_NAMES "}, " OPERAND_NAMES ", 1, 1, 1" TURNED ";"
                 : SUMS(d)
                 : "l"(a), "l"(b));
}

#if KILN_TYPE == 0
KILN_INLINE void kiln_multiply_wide_held(float d[KILN_WIDE_COLUMNS / 8][4], const kiln_u32 a[4],
                                         kiln_wide_operand b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n" TEXT_OF(KILN_WIDE_COLUMNS) TYPES SUM_NAMES
                 "}, " HELD_NAMES ", 1, 1, 1;"
                 : SUMS(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#endif

#undef TEN
#undef SIXTY
#undef SIXTY_MORE
#undef TEXT
#undef TEXT_OF
#undef SUM_NAMES
#undef OPERAND_NAMES
#undef HELD_NAMES
#undef SUMS
#undef BLOCK_SUMS
#undef FOUR
#undef EIGHT
#undef TYPES
#undef TURNED

#elif defined(KILN_OPENCL)

typedef struct {
    kiln_tiles tiles;
    kiln_u32 at, next, beside, row_bytes;
} kiln_wide_operand;

KILN_DEVICE kiln_wide_operand kiln_wide_plain(kiln_tiles tiles, kiln_u32 at, kiln_u32 row_bytes)
{
    kiln_wide_operand o = { tiles, at, row_bytes * 8, 0, row_bytes };
    return o;
}
KILN_DEVICE kiln_wide_operand kiln_wide_turned(kiln_tiles tiles, kiln_u32 at, kiln_u32 panel_bytes)
{
    kiln_wide_operand o = { tiles, at, 1024, panel_bytes, 128 };
    return o;
}
KILN_DEVICE void kiln_wide_begin(void) {}
KILN_DEVICE void kiln_wide_end(void) {}
#define kiln_wide_wait(left) ((void)0)
KILN_DEVICE void kiln_copies_publish(void) {}

/* The element of row |row| at step |step|; for the right operand, |row| is a column. */
KILN_DEVICE float kiln_wide_element(const kiln_wide_operand *o, int turned, kiln_u32 row,
                                    kiln_u32 step)
{
    kiln_u32 at = o->at;
    if (turned)
        at += row / 64 * o->beside + step / 8 * o->next + step % 8 * o->row_bytes + row % 64 * 2;
    else
        at += row / 8 * o->next + row % 8 * o->row_bytes + step * 2;
    at ^= (at >> 7 & (o->row_bytes / 16 - 1)) << 4;
    return kiln_mailed((__local const kiln_u32 *)o->tiles, at / 2);
}

KILN_DEVICE void kiln_multiply_wide(float (*d)[4], kiln_wide_operand a, kiln_wide_operand b)
{
    kiln_u32 lane = kiln_item() % 32, warp = kiln_item() / 32 % 4;
    for (kiln_u32 j = 0; j < KILN_WIDE_COLUMNS / 8; j++)
        for (kiln_u32 i = 0; i < 4; i++)
            for (kiln_u32 step = 0; step < 16; step++)
                d[j][i] +=
                    kiln_wide_element(&a, KILN_LEFT_TURNED, warp * 16 + i / 2 * 8 + lane / 4,
                                      step) *
                    kiln_wide_element(&b, KILN_RIGHT_TURNED, j * 8 + lane % 4 * 2 + i % 2, step);
}

#endif
#endif
