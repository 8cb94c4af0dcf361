/* SPDX-License-Identifier: MIT */
/*
 * What kiln's kernel sources stand on: one dialect over HIP, CUDA and OpenCL C 1.2.
 *
 * The compiler's caller defines exactly one of KILN_HIP, KILN_CUDA, KILN_OPENCL as 1.  Nothing
 * but the compilers' own builtins is used: no vendor header, no device library.  A kernel is
 *
 *     KILN_KERNEL(64) void name(KILN_GLOBAL const kiln_value *x, ..., kiln_u32 n) { ... }
 *
 * for work groups of 64.  Sources stay within what C99 and C++11 share.
 *
 *   KILN_DEVICE                    in front of every other function
 *   kiln_group(), kiln_item()      index of the work group, and of the item in its group
 *   kiln_value                     how an element is stored: KILN_TYPE is 0 fp32, 1 fp16, 2 bf16
 *   kiln_load(p, i)                element i as a float
 *   kiln_store(p, i, v)            rounded to nearest, ties to even
 */
#ifndef KILN_PRELUDE_H
#define KILN_PRELUDE_H

#if !defined(KILN_TYPE) || KILN_TYPE < 0 || KILN_TYPE > 2
#error "KILN_TYPE must be 0 (fp32), 1 (fp16) or 2 (bf16)"
#endif

#if defined(KILN_OPENCL)

typedef int kiln_i32;
typedef uint kiln_u32;
typedef long kiln_i64;
#define KILN_GLOBAL __global
#define KILN_RESTRICT restrict
#define KILN_DEVICE static
#define KILN_KERNEL(items) __kernel __attribute__((reqd_work_group_size(items, 1, 1)))
KILN_DEVICE kiln_u32 kiln_group(void) { return (kiln_u32)get_group_id(0); }
KILN_DEVICE kiln_u32 kiln_item(void) { return (kiln_u32)get_local_id(0); }
KILN_DEVICE kiln_u32 kiln_float_bits(float v) { return as_uint(v); }
KILN_DEVICE float kiln_bits_float(kiln_u32 bits) { return as_float(bits); }

#elif defined(KILN_HIP)

typedef int kiln_i32;
typedef unsigned int kiln_u32;
typedef long long kiln_i64;
#define KILN_GLOBAL
#define KILN_RESTRICT __restrict__
#define KILN_DEVICE static __attribute__((device)) inline
#define KILN_KERNEL(items) \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(items, items)))
KILN_DEVICE kiln_u32 kiln_group(void) { return __builtin_amdgcn_workgroup_id_x(); }
KILN_DEVICE kiln_u32 kiln_item(void) { return __builtin_amdgcn_workitem_id_x(); }
KILN_DEVICE kiln_u32 kiln_float_bits(float v) { return __builtin_bit_cast(kiln_u32, v); }
KILN_DEVICE float kiln_bits_float(kiln_u32 bits) { return __builtin_bit_cast(float, bits); }

#elif defined(KILN_CUDA)

typedef int kiln_i32;
typedef unsigned int kiln_u32;
typedef long long kiln_i64;
#define KILN_GLOBAL
#define KILN_RESTRICT __restrict__
#define KILN_DEVICE static __device__ inline
#define KILN_KERNEL(items) extern "C" __global__ __launch_bounds__(items)
KILN_DEVICE kiln_u32 kiln_group(void) { return blockIdx.x; }
KILN_DEVICE kiln_u32 kiln_item(void) { return threadIdx.x; }
KILN_DEVICE kiln_u32 kiln_float_bits(float v) { return __float_as_uint(v); }
KILN_DEVICE float kiln_bits_float(kiln_u32 bits) { return __uint_as_float(bits); }

#else
#error "one of KILN_HIP, KILN_CUDA, KILN_OPENCL must be defined as 1"
#endif

#if KILN_TYPE == 0

typedef float kiln_value;
#define kiln_load(from, index) ((from)[index])
#define kiln_store(to, index, v) ((to)[index] = (v))

#elif KILN_TYPE == 1 && defined(KILN_OPENCL)

typedef half kiln_value; /* storage only: arithmetic on it is an extension */
#define kiln_load(from, index) vload_half(index, from)
#define kiln_store(to, index, v) vstore_half_rte(v, index, to)

#elif KILN_TYPE == 1 && defined(KILN_HIP)

typedef _Float16 kiln_value;
#define kiln_load(from, index) ((float)(from)[index])
#define kiln_store(to, index, v) ((to)[index] = (_Float16)(v))

#elif KILN_TYPE == 1

typedef unsigned short kiln_value; /* CUDA's half lives in a header that NVRTC may lack */
KILN_DEVICE float kiln_load(const kiln_value *from, kiln_u32 index)
{
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(from[index]));
    return v;
}
KILN_DEVICE void kiln_store(kiln_value *to, kiln_u32 index, float v)
{
    kiln_value bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    to[index] = bits;
}

#else

typedef unsigned short kiln_value; /* the upper half of a float */
KILN_DEVICE float kiln_load(KILN_GLOBAL const kiln_value *from, kiln_u32 index)
{
    return kiln_bits_float((kiln_u32)from[index] << 16);
}
KILN_DEVICE void kiln_store(KILN_GLOBAL kiln_value *to, kiln_u32 index, float v)
{
    kiln_u32 bits = kiln_float_bits(v);
    if (v != v) /* rounding could turn a NaN into an infinity */
        to[index] = (kiln_value)(bits >> 16 | 0x40);
    else
        to[index] = (kiln_value)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
#endif
