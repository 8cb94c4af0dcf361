/* SPDX-License-Identifier: MIT */
/*
 * What plain HIP kernels use, for clang without ROCm: kiln's clang back end includes this file before
 * every source.  hiprtc has its own such file.
 *
 * Only what clang can generate without device libraries: attributes, indices, barriers, atomics,
 * vector types, and functions with machine instructions.  Other functions are declared so that their
 * use is an error that says why.  Everything is a macro, a builtin or a static function: a source
 * that uses nothing of it compiles as before.
 */
#ifndef KILN_HIP_PRELUDE
#define KILN_HIP_PRELUDE
#pragma clang system_header

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

#define KILN_HIP_FUNCTION static __attribute__((device, always_inline, unused)) inline

/* ---- indices ---- */

/* threadIdx.x and so on are calls of builtins. */
#define KILN_HIP_PART(name, part, call)                                                  \
    __attribute__((device, always_inline)) inline unsigned get_##part() const { return call; } \
    __declspec(property(get = get_##part)) unsigned part;
#define KILN_HIP_INDEX(name, in_x, in_y, in_z)                                  \
    struct kiln_hip_##name {                                                    \
        KILN_HIP_PART(name, x, in_x) KILN_HIP_PART(name, y, in_y) KILN_HIP_PART(name, z, in_z) \
    };                                                                          \
    extern __attribute__((device, weak)) const kiln_hip_##name name;
KILN_HIP_INDEX(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
               __builtin_amdgcn_workitem_id_z())
KILN_HIP_INDEX(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
               __builtin_amdgcn_workgroup_id_z())
KILN_HIP_INDEX(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
               __builtin_amdgcn_workgroup_size_z())
KILN_HIP_INDEX(gridDim, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
               __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
               __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
#undef KILN_HIP_INDEX
#undef KILN_HIP_PART
#define warpSize __builtin_amdgcn_wavefrontsize()

/* ---- barriers and fences ---- */

KILN_HIP_FUNCTION void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
KILN_HIP_FUNCTION void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
KILN_HIP_FUNCTION void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
KILN_HIP_FUNCTION void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* ---- atomics, relaxed and for the whole device, as HIP's ---- */

#define KILN_HIP_ATOMIC(type, name, builtin)                                              \
    KILN_HIP_FUNCTION type name(type *at, type value)                                     \
    {                                                                                     \
        return builtin(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);            \
    }
#define KILN_HIP_ATOMICS(type)                                  \
    KILN_HIP_ATOMIC(type, atomicAdd, __hip_atomic_fetch_add)    \
    KILN_HIP_ATOMIC(type, atomicExch, __hip_atomic_exchange)    \
    KILN_HIP_ATOMIC(type, atomicMin, __hip_atomic_fetch_min)    \
    KILN_HIP_ATOMIC(type, atomicMax, __hip_atomic_fetch_max)
#define KILN_HIP_INTEGER_ATOMICS(type)                          \
    KILN_HIP_ATOMICS(type)                                      \
    KILN_HIP_ATOMIC(type, atomicAnd, __hip_atomic_fetch_and)    \
    KILN_HIP_ATOMIC(type, atomicOr, __hip_atomic_fetch_or)      \
    KILN_HIP_ATOMIC(type, atomicXor, __hip_atomic_fetch_xor)    \
    KILN_HIP_FUNCTION type atomicSub(type *at, type value)      \
    {                                                           \
        return atomicAdd(at, (type)-value);                     \
    }                                                           \
    KILN_HIP_FUNCTION type atomicCAS(type *at, type expected, type value)                     \
    {                                                                                         \
        __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED,          \
                                             __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);     \
        return expected;                                                                      \
    }
KILN_HIP_INTEGER_ATOMICS(int)
KILN_HIP_INTEGER_ATOMICS(unsigned)
KILN_HIP_INTEGER_ATOMICS(unsigned long long)
KILN_HIP_ATOMICS(float)
KILN_HIP_ATOMICS(double)
#undef KILN_HIP_INTEGER_ATOMICS
#undef KILN_HIP_ATOMICS
#undef KILN_HIP_ATOMIC

/* ---- vectors ---- */

#define KILN_HIP_VECTORS(type, name)                                                        \
    typedef type name##2 __attribute__((ext_vector_type(2)));                               \
    typedef type name##3 __attribute__((ext_vector_type(3)));                               \
    typedef type name##4 __attribute__((ext_vector_type(4)));                               \
    KILN_HIP_FUNCTION name##2 make_##name##2(type x, type y) { return name##2{ x, y }; }    \
    KILN_HIP_FUNCTION name##3 make_##name##3(type x, type y, type z)                        \
    {                                                                                       \
        return name##3{ x, y, z };                                                          \
    }                                                                                       \
    KILN_HIP_FUNCTION name##4 make_##name##4(type x, type y, type z, type w)                \
    {                                                                                       \
        return name##4{ x, y, z, w };                                                       \
    }
KILN_HIP_VECTORS(float, float)
KILN_HIP_VECTORS(double, double)
KILN_HIP_VECTORS(int, int)
KILN_HIP_VECTORS(unsigned, uint)
#undef KILN_HIP_VECTORS

/* ---- functions that are a few machine instructions ---- */

#define KILN_HIP_UNARY(name, builtin_f, builtin_d)                                    \
    KILN_HIP_FUNCTION float name##f(float x) { return builtin_f(x); }                 \
    KILN_HIP_FUNCTION float name(float x) { return builtin_f(x); }                    \
    KILN_HIP_FUNCTION double name(double x) { return builtin_d(x); }
KILN_HIP_UNARY(fabs, __builtin_fabsf, __builtin_fabs)
KILN_HIP_UNARY(floor, __builtin_floorf, __builtin_floor)
KILN_HIP_UNARY(ceil, __builtin_ceilf, __builtin_ceil)
KILN_HIP_UNARY(trunc, __builtin_truncf, __builtin_trunc)
KILN_HIP_UNARY(rint, __builtin_rintf, __builtin_rint)
KILN_HIP_UNARY(sqrt, __builtin_sqrtf, __builtin_sqrt)
#undef KILN_HIP_UNARY
KILN_HIP_FUNCTION float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
KILN_HIP_FUNCTION float expf(float x) { return __builtin_elementwise_exp(x); }
KILN_HIP_FUNCTION float exp2f(float x) { return __builtin_elementwise_exp2(x); }
KILN_HIP_FUNCTION float logf(float x) { return __builtin_elementwise_log(x); }
KILN_HIP_FUNCTION float log2f(float x) { return __builtin_elementwise_log2(x); }
KILN_HIP_FUNCTION float log10f(float x) { return __builtin_elementwise_log10(x); }
KILN_HIP_FUNCTION float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
KILN_HIP_FUNCTION double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
KILN_HIP_FUNCTION float fminf(float x, float y) { return __builtin_fminf(x, y); }
KILN_HIP_FUNCTION float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
KILN_HIP_FUNCTION double fmin(double x, double y) { return __builtin_fmin(x, y); }
KILN_HIP_FUNCTION double fmax(double x, double y) { return __builtin_fmax(x, y); }
#define KILN_HIP_LEAST(type)                                                   \
    KILN_HIP_FUNCTION type min(type x, type y) { return y < x ? y : x; }       \
    KILN_HIP_FUNCTION type max(type x, type y) { return x < y ? y : x; }
KILN_HIP_LEAST(int)
KILN_HIP_LEAST(unsigned)
KILN_HIP_LEAST(long long)
KILN_HIP_LEAST(unsigned long long)
#undef KILN_HIP_LEAST
KILN_HIP_FUNCTION float min(float x, float y) { return __builtin_fminf(x, y); }
KILN_HIP_FUNCTION float max(float x, float y) { return __builtin_fmaxf(x, y); }

/* ---- functions of ROCm's device libraries ---- */

#define KILN_HIP_MISSING(name)                                                            \
    __attribute__((device, unavailable("needs ROCm's device libraries, which kiln's clang " \
                                       "does not use: install hiprtc (ROCm, or Debian's "  \
                                       "libamdhip64-5), or pass an implementation")))      \
    float name(...);
KILN_HIP_MISSING(sinf)
KILN_HIP_MISSING(cosf)
KILN_HIP_MISSING(tanf)
KILN_HIP_MISSING(tanhf)
KILN_HIP_MISSING(powf)
KILN_HIP_MISSING(erff)
KILN_HIP_MISSING(sin)
KILN_HIP_MISSING(cos)
KILN_HIP_MISSING(tan)
KILN_HIP_MISSING(tanh)
KILN_HIP_MISSING(pow)
KILN_HIP_MISSING(exp)
KILN_HIP_MISSING(log)
KILN_HIP_MISSING(printf)
#undef KILN_HIP_MISSING
#undef KILN_HIP_FUNCTION

#endif
