/* SPDX-License-Identifier: MIT */
/*
 * Matrix-core functions for kernels that multiply tiles in shared memory.  Included as
 * "kiln/matrix_cores.h".  KILN_TYPE is 1 (fp16), 2 (bf16) or, on NVIDIA, 0 (fp32 operands, which
 * the caller rounds to TF32: 8 bits of exponent, 10 of mantissa).  Sums are fp32.  OpenCL has no
 * matrix cores, so there the functions emulate them: items exchange registers through local memory,
 * with the documented layouts.  This is slow, and only for tests.
 *
 * A warp has 32 items.  kiln_tiles is a kernel's shared memory; |at| is a byte offset in it.
 *
 *   KILN_TILES(name)                     declares it at the kernel's start; 1024-byte aligned
 *   kiln_copy16(tiles, at, from, is_there)
 *                                        copies 16 bytes of global memory asynchronously, or writes
 *                                        zeros if is_there is 0
 *   kiln_copies_end(), kiln_copies_wait(n)
 *                                        closes a group of copies; waits for all but n groups
 *   kiln_load8x8(r, tiles, at), kiln_load8x8_turned(r, tiles, at)
 *                                        loads four 8x8 matrices.  Lane i passes the offset of row
 *                                        i % 8 of matrix i / 8.  It receives elements 2 * (i % 4)
 *                                        and 2 * (i % 4) + 1 of row i / 4; with "turned", of column
 *                                        i / 4.  With four-byte types, it receives element i % 4 of
 *                                        row i / 4, and "turned" does not exist
 *   kiln_store8x8_turned(tiles, at, r)   stores four 8x8 matrices of two-byte elements with rows
 *                                        and columns exchanged; the inverse of kiln_load8x8_turned
 *                                        (sm_90, only on CUDA)
 *   kiln_multiply16x8x16(d, a, b, tiles) d += a * b.  TF32 has kiln_multiply16x8x8, whose lane i
 *                                        has rows i / 4 of a and columns i / 4 of b at steps i % 4
 *                                        and i % 4 + 4
 *   kiln_tf32(v)                         the bits of a float, rounded to the nearest TF32 value,
 *                                        ties away from zero
 *   KILN_TILES_FLOATS(name)              the shared memory as an array of floats
 *   kiln_pack(low, high)                 two floats, rounded to kiln_value's type
 *   kiln_tiles_put4(tiles, at, v), kiln_tiles_store16(to, tiles, at)
 *                                        writes to shared memory; copies from it to global memory
 *   kiln_tiles_store4(to, tiles, at), kiln_tiles_store2(to, tiles, at)
 *                                        the same for 4 and 2 bytes (only on CUDA)
 *   kiln_store_floats(to, a, b)          stores two neighbours
 *   kiln_tiles_get4(tiles, at)           reads a float from shared memory (TF32)
 *   kiln_tiles_put8(tiles, at, a, b), kiln_tiles_put_four(tiles, at, v)
 *                                        writes two or four floats to shared memory (TF32 on CUDA)
 *   KILN_ELEMENT, KILN_CHUNK             bytes of an element; elements of a copy of 16 bytes
 *   KILN_WAVE, KILN_STEP, KILN_BLOCK_N   items of a warp; length of a step along the reduction;
 *                                        columns of a block of results, which has 16 rows
 *   kiln_sums, KILN_SUMS, KILN_RUN       an item's sums in a block; their number; how many of them
 *                                        are contiguous
 *   kiln_sum_row(lane, i), kiln_sum_column(lane, i)
 *                                        position of sum i in the block
 *
 * Source of the layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16", "mma.m16n8k8" and
 * "ldmatrix".
 *
 * KILN_CORES is undefined or 1 for NVIDIA.  For AMD, matrix_cores_amd.h has other functions instead
 * of kiln_copy16, kiln_load8x8 and kiln_multiply16x8x16.
 */
#ifndef KILN_MATRIX_CORES_H
#define KILN_MATRIX_CORES_H

#include "kiln/prelude.h"

#ifndef KILN_CORES
#define KILN_CORES 1
#endif
#if KILN_TYPE == 0 && KILN_CORES != 1
#error "these matrix cores take fp16 and bf16"
#endif

#define KILN_ELEMENT (KILN_TYPE == 0 ? 4 : 2)
#define KILN_CHUNK (16 / KILN_ELEMENT)

#if KILN_CORES == 1
#define KILN_STAGED 0 /* copies bypass registers */
#define KILN_WAVE 32
#if KILN_TYPE == 0
#define KILN_STEP 8
#else
#define KILN_STEP 16
#endif
#define KILN_BLOCK_N 8
#define KILN_SUMS 4
#define KILN_RUN 2
typedef float kiln_sums[KILN_SUMS];
KILN_INLINE kiln_u32 kiln_sum_row(kiln_u32 lane, kiln_u32 i) { return lane / 4 + i / 2 * 8; }
KILN_INLINE kiln_u32 kiln_sum_column(kiln_u32 lane, kiln_u32 i) { return lane % 4 * 2 + i % 2; }
#endif

#if defined(KILN_CUDA)

typedef kiln_u32 kiln_tiles;
#define KILN_UNROLLED KILN_UNROLL
#define KILN_TILES(name)                                            \
    extern __shared__ __align__(1024) unsigned char name##_bytes[]; \
    const kiln_tiles name = (kiln_u32)__cvta_generic_to_shared(name##_bytes)
#define KILN_TILES_FLOATS(name) ((float *)name##_bytes)
#define KILN_KERNEL_OCCUPYING(items, groups) extern "C" __global__ __launch_bounds__(items, groups)

#if KILN_CACHE
#define KILN_COPY "cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;"
#else
#define KILN_COPY "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
#endif

KILN_INLINE void kiln_copy16(kiln_tiles tiles, kiln_u32 at, const kiln_value *from, int is_there)
{
    asm volatile(KILN_COPY ::"r"(tiles + at), "l"(from), "r"(is_there ? 16 : 0));
}
KILN_INLINE void kiln_copies_end(void) { asm volatile("cp.async.commit_group;" ::); }
#define kiln_copies_wait(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

KILN_INLINE void kiln_load8x8(kiln_u32 r[4], kiln_tiles tiles, kiln_u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tiles + at));
}
KILN_INLINE void kiln_load8x8_turned(kiln_u32 r[4], kiln_tiles tiles, kiln_u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tiles + at));
}
KILN_INLINE void kiln_store8x8_turned(kiln_tiles tiles, kiln_u32 at, const kiln_u32 r[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     tiles + at),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

#if KILN_TYPE == 0

KILN_INLINE kiln_u32 kiln_tf32(float v)
{
    kiln_u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
    return bits;
}
KILN_INLINE float kiln_tiles_get4(kiln_tiles tiles, kiln_u32 at)
{
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(tiles + at));
    return v;
}
KILN_INLINE void kiln_tiles_put8(kiln_tiles tiles, kiln_u32 at, float a, float b)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(tiles + at), "f"(a), "f"(b) : "memory");
}
KILN_INLINE void kiln_tiles_put_four(kiln_tiles tiles, kiln_u32 at, const float v[4])
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(tiles + at), "f"(v[0]), "f"(v[1]),
                 "f"(v[2]), "f"(v[3])
                 : "memory");
}
KILN_INLINE void kiln_multiply16x8x8(float d[4], const kiln_u32 a[4], const kiln_u32 b[2],
                                     kiln_tiles tiles)
{
    (void)tiles;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

#if KILN_TYPE == 1
#define KILN_MULTIPLY "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#define KILN_PACK "cvt.rn.f16x2.f32 %0, %1, %2;"
#else
#define KILN_MULTIPLY "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#define KILN_PACK "cvt.rn.bf16x2.f32 %0, %1, %2;"
#endif

KILN_INLINE void kiln_multiply16x8x16(float d[4], const kiln_u32 a[4], const kiln_u32 b[2],
                                      kiln_tiles tiles)
{
    (void)tiles;
    asm volatile(KILN_MULTIPLY "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

KILN_INLINE kiln_u32 kiln_pack(float low, float high)
{
    kiln_u32 both;
    asm(KILN_PACK : "=r"(both) : "f"(high), "f"(low));
    return both;
}

#endif

KILN_INLINE void kiln_tiles_put4(kiln_tiles tiles, kiln_u32 at, kiln_u32 v)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(tiles + at), "r"(v) : "memory");
}
KILN_INLINE void kiln_tiles_store16(kiln_value *to, kiln_tiles tiles, kiln_u32 at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(tiles + at));
    *(uint4 *)to = v;
}
KILN_INLINE void kiln_tiles_store4(kiln_value *to, kiln_tiles tiles, kiln_u32 at)
{
    kiln_u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(tiles + at));
    *(kiln_u32 *)to = v;
}
KILN_INLINE void kiln_tiles_store2(kiln_value *to, kiln_tiles tiles, kiln_u32 at)
{
    unsigned short v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(tiles + at));
    *(unsigned short *)to = v;
}
KILN_INLINE void kiln_store_floats(float *to, float a, float b)
{
    *(float2 *)to = make_float2(a, b);
}

#elif defined(KILN_OPENCL)

typedef __local uchar *kiln_tiles;
#define KILN_UNROLLED _Pragma("nounroll") /* the emulation's barriers must not be duplicated */
/* Each item of the emulation has a mailbox in the bytes before the tiles. */
#if KILN_CORES == 1
#define KILN_MAIL_WORDS 6
#else
#define KILN_MAIL_WORDS 16
#endif
#define KILN_MAIL_BYTES (KILN_GROUP_ITEMS * KILN_MAIL_WORDS * 4)
#define KILN_TILES(name)                                                                         \
    __local uchar name##_bytes[KILN_MAIL_BYTES + KILN_TILES_BYTES] __attribute__((aligned(16))); \
    kiln_tiles name = name##_bytes + KILN_MAIL_BYTES
#define KILN_TILES_FLOATS(name) ((__local float *)(name))
#define KILN_KERNEL_OCCUPYING(items, groups) KILN_KERNEL(items)
#define KILN_MAIL(tiles) ((__local kiln_u32 *)((tiles)-KILN_MAIL_BYTES))

#if KILN_TYPE == 0

KILN_DEVICE kiln_u32 kiln_tf32(float v)
{
    kiln_u32 bits = as_uint(v);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}
KILN_DEVICE float kiln_tiles_get4(kiln_tiles tiles, kiln_u32 at)
{
    return *(__local const float *)(tiles + at);
}
KILN_DEVICE void kiln_multiply16x8x8(float *d, const kiln_u32 *a, const kiln_u32 *b,
                                     kiln_tiles tiles)
{
    __local kiln_u32 *mail = KILN_MAIL(tiles);
    kiln_u32 lane = kiln_item() % 32, warp = kiln_item() - lane;
    for (int i = 0; i < 4; i++)
        mail[kiln_item() * 6 + i] = a[i];
    mail[kiln_item() * 6 + 4] = b[0];
    mail[kiln_item() * 6 + 5] = b[1];
    kiln_barrier();
    for (int i = 0; i < 4; i++) {
        kiln_u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (kiln_u32 k = 0; k < 8; k++) {
            kiln_u32 a_lane = warp + row % 8 * 4 + k % 4, b_lane = warp + column * 4 + k % 4;
            d[i] += as_float(mail[a_lane * 6 + row / 8 + k / 4 * 2]) *
                    as_float(mail[b_lane * 6 + 4 + k / 4]);
        }
    }
    kiln_barrier();
}

#else

/* The fp16 or bf16 value |index| of the mailbox. */
KILN_DEVICE float kiln_mailed(__local const kiln_u32 *mail, kiln_u32 index)
{
#if KILN_TYPE == 1
    return vload_half(index, (__local const half *)mail);
#else
    return as_float((kiln_u32)((__local const ushort *)mail)[index] << 16);
#endif
}

KILN_DEVICE kiln_u32 kiln_rounded(float v)
{
#if KILN_TYPE == 1
    ushort bits;
    vstore_half_rte(v, 0, (half *)&bits);
    return bits;
#else
    return kiln_round(v);
#endif
}
KILN_DEVICE kiln_u32 kiln_pack(float low, float high)
{
    return kiln_rounded(low) | kiln_rounded(high) << 16;
}

#endif

KILN_DEVICE void kiln_tiles_put4(kiln_tiles tiles, kiln_u32 at, kiln_u32 v)
{
    *(__local kiln_u32 *)(tiles + at) = v;
}
KILN_DEVICE void kiln_tiles_store16(__global kiln_value *to, kiln_tiles tiles, kiln_u32 at)
{
    vstore4(vload4(0, (__local const uint *)(tiles + at)), 0, (__global uint *)to);
}
KILN_DEVICE void kiln_store_floats(__global float *to, float a, float b)
{
    to[0] = a;
    to[1] = b;
}

#if KILN_CORES == 1

KILN_DEVICE void kiln_copy16(kiln_tiles tiles, kiln_u32 at, __global const kiln_value *from,
                             int is_there)
{
    vstore4(is_there ? vload4(0, (__global const uint *)from) : (uint4)(0), 0,
            (__local uint *)(tiles + at));
}
KILN_DEVICE void kiln_copies_end(void) {}
#define kiln_copies_wait(left) ((void)0)

KILN_DEVICE void kiln_load8x8(kiln_u32 *r, kiln_tiles tiles, kiln_u32 at)
{
    __local kiln_u32 *mail = KILN_MAIL(tiles);
    kiln_u32 lane = kiln_item() % 32, warp = kiln_item() - lane;
    mail[kiln_item()] = at;
    kiln_barrier();
    for (int i = 0; i < 4; i++)
        r[i] = *(__local kiln_u32 *)(tiles + mail[warp + i * 8 + lane / 4] + lane % 4 * 4);
    kiln_barrier();
}
#if KILN_TYPE != 0

KILN_DEVICE void kiln_load8x8_turned(kiln_u32 *r, kiln_tiles tiles, kiln_u32 at)
{
    __local kiln_u32 *mail = KILN_MAIL(tiles);
    kiln_u32 lane = kiln_item() % 32, warp = kiln_item() - lane;
    mail[kiln_item()] = at;
    kiln_barrier();
    for (int i = 0; i < 4; i++) {
        kiln_u32 row = warp + i * 8 + lane % 4 * 2;
        kiln_u32 low = *(__local ushort *)(tiles + mail[row] + lane / 4 * 2);
        kiln_u32 high = *(__local ushort *)(tiles + mail[row + 1] + lane / 4 * 2);
        r[i] = low | high << 16;
    }
    kiln_barrier();
}

KILN_DEVICE void kiln_multiply16x8x16(float *d, const kiln_u32 *a, const kiln_u32 *b,
                                      kiln_tiles tiles)
{
    __local kiln_u32 *mail = KILN_MAIL(tiles);
    kiln_u32 lane = kiln_item() % 32, warp = kiln_item() - lane;
    for (int i = 0; i < 4; i++)
        mail[kiln_item() * 6 + i] = a[i];
    mail[kiln_item() * 6 + 4] = b[0];
    mail[kiln_item() * 6 + 5] = b[1];
    kiln_barrier();
    for (int i = 0; i < 4; i++) {
        kiln_u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (kiln_u32 k = 0; k < 16; k++) {
            kiln_u32 a_lane = warp + row % 8 * 4 + k % 8 / 2,
                     b_lane = warp + column * 4 + k % 8 / 2;
            d[i] += kiln_mailed(mail, (a_lane * 6 + row / 8 + k / 8 * 2) * 2 + k % 2) *
                    kiln_mailed(mail, (b_lane * 6 + 4 + k / 8) * 2 + k % 2);
        }
    }
    kiln_barrier();
}

#endif
#endif
#endif

#if KILN_CORES != 1
#include "kiln/matrix_cores_amd.h"
#endif
#endif
