/* SPDX-License-Identifier: MIT */
/*
 * The common base of kiln's kernel sources: one dialect for HIP, CUDA and OpenCL C 1.2.
 *
 * The engine, which calls the compiler, defines exactly one of KILN_HIP, KILN_CUDA, KILN_OPENCL as
 * 1.  Sources use only the compilers' builtins, no vendor headers and no device libraries.  A
 * kernel is
 *
 *     KILN_KERNEL(64) void name(KILN_GLOBAL const kiln_value *x, ..., kiln_u32 n) { ... }
 *
 * for work groups of 64 items.  Sources use the common subset of C99 and C++11.
 *
 *   KILN_DEVICE                    before every other function
 *   KILN_INLINE                    the same, but always inlined, so that arrays can be in
 *                                  registers.  Unused functions of both kinds cause no warning
 *   KILN_UNROLL                    before a loop of constant length
 *   KILN_ROLLED                    before a loop that LLVM for AMD must not unroll: it would move
 *                                  all reads to the start and spill registers
 *   KILN_SHARED, KILN_SHARED16     before a kernel's array in shared memory (LDS); KILN_SHARED16
 *                                  aligns it to 16 bytes.  KILN_LOCAL: before a pointer into one
 *   kiln_barrier()                 waits for the group's items and their writes to shared memory
 *   kiln_group(), kiln_item()      index of the work group, and of the item in its group
 *   kiln_value                     type of a stored element: KILN_TYPE is 0 fp32, 1 fp16, 2 bf16
 *   kiln_load(p, i)                element i as a float
 *   kiln_store(p, i, v)            stores v, rounded to nearest, ties to even
 *   kiln_float4                    .x .y .z .w, made by kiln_make4
 *   kiln_load4(p, i)               elements i to i + 3, where i is a multiple of 4 and p is aligned
 *   kiln_store4(p, i, v)           stores elements i to i + 3, under the same conditions
 *   KILN_HAS_ASYNC_COPY            1 if kiln_copy_async and its other functions exist
 */
#ifndef KILN_PRELUDE_H
#define KILN_PRELUDE_H

#if !defined(KILN_TYPE) || KILN_TYPE < 0 || KILN_TYPE > 2
#error "KILN_TYPE must be 0 (fp32), 1 (fp16) or 2 (bf16)"
#endif

/* Suppresses warnings: depending on its options, a program may not call all functions. */
#define KILN_UNUSED __attribute__((unused))

#if defined(KILN_OPENCL)

typedef int kiln_i32;
typedef uint kiln_u32;
typedef long kiln_i64;
typedef ulong kiln_u64;
typedef float2 kiln_float2;
typedef float4 kiln_float4;
#define KILN_GLOBAL __global
#define KILN_LOCAL __local
#define KILN_SHARED __local
#define KILN_SHARED16 __local __attribute__((aligned(16)))
#define KILN_RESTRICT restrict
#define KILN_DEVICE static KILN_UNUSED
#define KILN_INLINE static __attribute__((always_inline)) inline KILN_UNUSED
#define KILN_KERNEL(items) __kernel __attribute__((reqd_work_group_size(items, 1, 1)))
KILN_DEVICE kiln_u32 kiln_group(void) { return (kiln_u32)get_group_id(0); }
KILN_DEVICE kiln_u32 kiln_item(void) { return (kiln_u32)get_local_id(0); }
#define kiln_barrier() barrier(CLK_LOCAL_MEM_FENCE)
#define kiln_make2(x, y) ((float2)(x, y))
#define kiln_make4(x, y, z, w) ((float4)(x, y, z, w))
KILN_DEVICE kiln_u32 kiln_float_bits(float v) { return as_uint(v); }
KILN_DEVICE float kiln_bits_float(kiln_u32 bits) { return as_float(bits); }

#elif defined(KILN_HIP)

typedef int kiln_i32;
typedef unsigned int kiln_u32;
typedef long long kiln_i64;
typedef unsigned long long kiln_u64;
typedef float kiln_float2 __attribute__((ext_vector_type(2)));
typedef float kiln_float4 __attribute__((ext_vector_type(4)));
#define KILN_GLOBAL
#define KILN_LOCAL
#define KILN_SHARED __attribute__((shared))
#define KILN_SHARED16 __attribute__((shared, aligned(16)))
#define KILN_RESTRICT __restrict__
#define KILN_DEVICE static __attribute__((device)) inline KILN_UNUSED
#define KILN_INLINE static __attribute__((device, always_inline)) inline KILN_UNUSED
#define KILN_KERNEL(items) \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(items, items)))
KILN_DEVICE kiln_u32 kiln_group(void) { return __builtin_amdgcn_workgroup_id_x(); }
KILN_DEVICE kiln_u32 kiln_item(void) { return __builtin_amdgcn_workitem_id_x(); }
KILN_INLINE void kiln_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
KILN_INLINE kiln_float2 kiln_make2(float x, float y)
{
    kiln_float2 two = { x, y };
    return two;
}
KILN_INLINE kiln_float4 kiln_make4(float x, float y, float z, float w)
{
    kiln_float4 four = { x, y, z, w };
    return four;
}
KILN_DEVICE kiln_u32 kiln_float_bits(float v) { return __builtin_bit_cast(kiln_u32, v); }
KILN_DEVICE float kiln_bits_float(kiln_u32 bits) { return __builtin_bit_cast(float, bits); }

#elif defined(KILN_CUDA)

typedef int kiln_i32;
typedef unsigned int kiln_u32;
typedef long long kiln_i64;
typedef unsigned long long kiln_u64;
typedef float2 kiln_float2;
typedef float4 kiln_float4;
#define KILN_GLOBAL
#define KILN_LOCAL
#define KILN_SHARED __shared__
#define KILN_SHARED16 __shared__ __align__(16)
#define KILN_RESTRICT __restrict__
#define KILN_DEVICE static __device__ inline KILN_UNUSED
#define KILN_INLINE static __device__ __forceinline__ KILN_UNUSED
#define KILN_KERNEL(items) extern "C" __global__ __launch_bounds__(items)
KILN_DEVICE kiln_u32 kiln_group(void) { return blockIdx.x; }
KILN_DEVICE kiln_u32 kiln_item(void) { return threadIdx.x; }
#define kiln_barrier() __syncthreads()
#define kiln_make2(x, y) make_float2(x, y)
#define kiln_make4(x, y, z, w) make_float4(x, y, z, w)
KILN_DEVICE kiln_u32 kiln_float_bits(float v) { return __float_as_uint(v); }
KILN_DEVICE float kiln_bits_float(kiln_u32 bits) { return __uint_as_float(bits); }

#else
#error "one of KILN_HIP, KILN_CUDA, KILN_OPENCL must be defined as 1"
#endif

#define KILN_UNROLL _Pragma("unroll")
#if defined(KILN_HIP)
#define KILN_ROLLED _Pragma("unroll 1")
#else
#define KILN_ROLLED
#endif

#if KILN_TYPE == 0

typedef float kiln_value;
#define kiln_load(from, index) ((from)[index])
#define kiln_store(to, index, v) ((to)[index] = (v))
#define kiln_load4(from, index) (*(KILN_GLOBAL const kiln_float4 *)((from) + (index)))
#define kiln_store4(to, index, v) (*(KILN_GLOBAL kiln_float4 *)((to) + (index)) = (v))

#elif KILN_TYPE == 1 && defined(KILN_OPENCL)

typedef half kiln_value; /* only for storage: arithmetic on half is an extension */
#define kiln_load(from, index) vload_half(index, from)
#define kiln_store(to, index, v) vstore_half_rte(v, index, to)
#define kiln_load4(from, index) vload_half4(0, (from) + (index))
#define kiln_store4(to, index, v) vstore_half4_rte(v, 0, (to) + (index))

#elif KILN_TYPE == 1 && defined(KILN_HIP)

typedef _Float16 kiln_value;
#define kiln_load(from, index) ((float)(from)[index])
#define kiln_store(to, index, v) ((to)[index] = (_Float16)(v))
typedef _Float16 kiln_half4 __attribute__((ext_vector_type(4)));
#define kiln_load4(from, index) \
    __builtin_convertvector(*(const kiln_half4 *)((from) + (index)), kiln_float4)
#define kiln_store4(to, index, v) \
    (*(kiln_half4 *)((to) + (index)) = __builtin_convertvector(v, kiln_half4))

#elif KILN_TYPE == 1

typedef unsigned short kiln_value; /* CUDA's half is defined in a header that NVRTC may lack */
KILN_DEVICE float kiln_widen(kiln_value bits)
{
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    return v;
}
KILN_DEVICE kiln_value kiln_round(float v)
{
    kiln_value bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    return bits;
}
#define KILN_VALUE_IS_BITS 1

#else

typedef unsigned short kiln_value; /* the upper 16 bits of a float */
KILN_DEVICE float kiln_widen(kiln_value bits) { return kiln_bits_float((kiln_u32)bits << 16); }
KILN_DEVICE kiln_value kiln_round(float v)
{
    kiln_u32 bits = kiln_float_bits(v);
    if (v != v) /* rounding could turn a NaN into an infinity */
        return (kiln_value)(bits >> 16 | 0x40);
    return (kiln_value)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#define KILN_VALUE_IS_BITS 1

#endif

#if defined(KILN_VALUE_IS_BITS)

typedef struct {
    kiln_u32 low, high;
} __attribute__((aligned(8))) kiln_bits4;
KILN_DEVICE float kiln_load(KILN_GLOBAL const kiln_value *from, kiln_u32 index)
{
    return kiln_widen(from[index]);
}
KILN_DEVICE void kiln_store(KILN_GLOBAL kiln_value *to, kiln_u32 index, float v)
{
    to[index] = kiln_round(v);
}
KILN_DEVICE kiln_float4 kiln_load4(KILN_GLOBAL const kiln_value *from, kiln_u32 index)
{
    kiln_bits4 four = *(KILN_GLOBAL const kiln_bits4 *)(from + index);
    return kiln_make4(kiln_widen((kiln_value)four.low), kiln_widen((kiln_value)(four.low >> 16)),
                      kiln_widen((kiln_value)four.high), kiln_widen((kiln_value)(four.high >> 16)));
}
KILN_DEVICE void kiln_store4(KILN_GLOBAL kiln_value *to, kiln_u32 index, kiln_float4 v)
{
    kiln_bits4 four;
    four.low = kiln_round(v.x) | (kiln_u32)kiln_round(v.y) << 16;
    four.high = kiln_round(v.z) | (kiln_u32)kiln_round(v.w) << 16;
    *(KILN_GLOBAL kiln_bits4 *)(to + index) = four;
}

#endif

/* Reads or writes four 16-byte aligned floats of shared memory, or of a tensor of floats (for any
 * KILN_TYPE). */
KILN_INLINE void kiln_get_shared4(KILN_LOCAL const float *from, float *four)
{
    kiln_float4 v = *(KILN_LOCAL const kiln_float4 *)from;
    four[0] = v.x;
    four[1] = v.y;
    four[2] = v.z;
    four[3] = v.w;
}
KILN_INLINE void kiln_put_shared4(KILN_LOCAL float *to, const float *four)
{
    *(KILN_LOCAL kiln_float4 *)to = kiln_make4(four[0], four[1], four[2], four[3]);
}
KILN_INLINE void kiln_store_float4(KILN_GLOBAL float *to, kiln_u32 index, kiln_float4 v)
{
    *(KILN_GLOBAL kiln_float4 *)(to + index) = v;
}

/* Keeps memory reads in order.  Otherwise, LLVM for AMD moves all reads of an unrolled loop to its
 * start and spills registers. */
#if defined(KILN_HIP)
#define kiln_in_order() asm volatile("" ::: "memory")
#else
#define kiln_in_order() ((void)0)
#endif

/* Hides how an item's number was computed.  Otherwise, LLVM for AMD splits the sum and adds each
 * constant to the part that all items share, which needs too many scalar registers. */
#if defined(KILN_HIP)
#define kiln_as_one(v) asm("" : "+v"(v))
#else
#define kiln_as_one(v) ((void)0)
#endif

/* Makes a read at |index| come after |v| is computed.  Otherwise, LLVM for AMD reads shared memory
 * for several iterations of an unrolled loop at once. */
#if defined(KILN_HIP)
#define kiln_know_after(index, v) asm("" : "+v"(index), "+v"(v))
#else
#define kiln_know_after(index, v) ((void)0)
#endif

/* |index| is even and |to| is aligned. */
KILN_INLINE void kiln_store_float2(KILN_GLOBAL float *to, kiln_u32 index, float x, float y)
{
    kiln_float2 two = kiln_make2(x, y);
    *(KILN_GLOBAL kiln_float2 *)(to + index) = two;
}

/*
 * Asynchronous copies from global to shared memory, which bypass registers.  kiln_copy_async
 * starts a copy of 4 or 16 |bytes|; both addresses must be aligned to the size.  If |valid| is
 * 0, it reads nothing and writes zeros.  kiln_copy_commit ends a batch of copies. 
 * kiln_copy_wait(k) waits until all but the latest k batches of this item are complete.
 */
#if defined(KILN_CUDA) && __CUDA_ARCH__ >= 800

#define KILN_HAS_ASYNC_COPY 1
KILN_INLINE kiln_u32 kiln_shared_address(const void *shared)
{
    return (kiln_u32)__cvta_generic_to_shared(shared);
}
KILN_INLINE void kiln_copy_async(kiln_u32 to, const void *from, int bytes, int valid)
{
    int size = valid ? bytes : 0;
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(size)
                     : "memory");
}
KILN_INLINE void kiln_copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define kiln_copy_wait(batches) asm volatile("cp.async.wait_group %0;" ::"n"(batches) : "memory")

#endif
#endif
