/* SPDX-License-Identifier: MIT */
/*
 * Bulk tensor copies (TMA) of sm_90a, and the barriers (mbarrier) that signal their completion.
 * Included as "kiln/bulk_copies.h".  One item starts a copy.  The hardware computes the addresses,
 * writes zeros for elements outside the tensor, and swizzles 16-byte chunks in the layout that
 * kiln/wide_products.h reads.  Source: PTX ISA, "cp.async.bulk.tensor", "mbarrier" and "Tensor
 * im2col modes".
 *
 *   kiln_tensor_map                  a parameter of the kernel, KILN_MAP(name)
 *   kiln_signal                      a barrier's byte in shared memory, aligned to 8
 *   kiln_signal_init(signal, count)  initialises it for |count| arrivals.  One item calls it before
 *                                    any other use, and then calls kiln_signals_publish()
 *   kiln_signal_expect(signal, bytes)
 *                                    arrives; the phase also waits for |bytes| bytes of copies
 *   kiln_signal_arrive(signal)       arrives
 *   kiln_signal_wait(signal, phase)  waits until the phase with parity |phase| is complete
 *   kiln_bulk2(to, map, signal, a, b), kiln_bulk3(to, map, signal, a, b, c)
 *                                    copies a box that starts at these coordinates
 *   kiln_bulk_pixels(to, map, signal, c, w, h, n, tap_w, tap_h)
 *                                    copies a row of pixels of a 4-dimensional im2col map
 *   kiln_bulk_voxels(to, map, signal, c, w, h, d, n, tap_w, tap_h, tap_d)
 *                                    the same for a 5-dimensional one
 *   kiln_bulk_store2(map, from, a, b), kiln_bulk_store3(map, from, a, b, c)
 *                                    copies a box from shared memory to these coordinates, except
 *                                    elements outside the tensor.  Call kiln_copies_publish() first
 *   kiln_bulk_stores_end(), kiln_bulk_stores_wait()
 *                                    closes a group of this item's stores; waits until all closed
 *                                    groups have been read from shared memory
 *   kiln_map_prefetch(map)           prefetches a map that will be used soon
 */
#ifndef KILN_BULK_COPIES_H
#define KILN_BULK_COPIES_H

#include "kiln/matrix_cores.h"

typedef struct __align__(64) { kiln_u64 words[16]; }
kiln_tensor_map;
typedef kiln_u32 kiln_signal;

#define KILN_MAP(name) const __grid_constant__ kiln_tensor_map name

KILN_INLINE void kiln_map_prefetch(const kiln_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

KILN_INLINE void kiln_signal_init(kiln_signal signal, kiln_u32 count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(signal), "r"(count) : "memory");
}
KILN_INLINE void kiln_signals_publish(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
KILN_INLINE void kiln_signal_expect(kiln_signal signal, kiln_u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(signal), "r"(bytes)
                 : "memory");
}
KILN_INLINE void kiln_signal_arrive(kiln_signal signal)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(signal) : "memory");
}
KILN_INLINE int kiln_signal_try(kiln_signal signal, kiln_u32 phase)
{
    kiln_u32 is_complete;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(is_complete)
                 : "r"(signal), "r"(phase)
                 : "memory");
    return is_complete;
}
KILN_INLINE void kiln_signal_wait(kiln_signal signal, kiln_u32 phase)
{
    while (!kiln_signal_try(signal, phase)) {
    }
}

KILN_INLINE void kiln_bulk2(kiln_u32 to, const kiln_tensor_map *map, kiln_signal signal, kiln_u32 a,
                            kiln_u32 b)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(signal), "r"(a), "r"(b)
                 : "memory");
}
KILN_INLINE void kiln_bulk3(kiln_u32 to, const kiln_tensor_map *map, kiln_signal signal, kiln_u32 a,
                            kiln_u32 b, kiln_u32 c)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(signal), "r"(a), "r"(b), "r"(c)
                 : "memory");
}
KILN_INLINE void kiln_bulk_pixels(kiln_u32 to, const kiln_tensor_map *map, kiln_signal signal,
                                  kiln_u32 c, int w, int h, kiln_u32 n, kiln_u32 tap_w,
                                  kiln_u32 tap_h)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
        "l"(map), "r"(signal), "r"(c), "r"(w), "r"(h), "r"(n), "h"((unsigned short)tap_w),
        "h"((unsigned short)tap_h)
        : "memory");
}
KILN_INLINE void kiln_bulk_voxels(kiln_u32 to, const kiln_tensor_map *map, kiln_signal signal,
                                  kiln_u32 c, int w, int h, int d, kiln_u32 n, kiln_u32 tap_w,
                                  kiln_u32 tap_h, kiln_u32 tap_d)
{
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
        "l"(map), "r"(signal), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"((unsigned short)tap_w),
        "h"((unsigned short)tap_h), "h"((unsigned short)tap_d)
        : "memory");
}
KILN_INLINE void kiln_bulk_store2(const kiln_tensor_map *map, kiln_u32 from, kiln_u32 a, kiln_u32 b)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
            map),
        "r"(from), "r"(a), "r"(b)
        : "memory");
}
KILN_INLINE void kiln_bulk_store3(const kiln_tensor_map *map, kiln_u32 from, kiln_u32 a, kiln_u32 b,
                                  kiln_u32 c)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(a), "r"(b), "r"(c)
                 : "memory");
}
KILN_INLINE void kiln_bulk_stores_end(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
KILN_INLINE void kiln_bulk_stores_wait(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
#endif
