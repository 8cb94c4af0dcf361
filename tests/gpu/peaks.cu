/* SPDX-License-Identifier: MIT */
/*
 * Kernels with which gpu_peaks measures the maximum rates of an NVIDIA GPU.  No convolution can be
 * faster than these rates allow.
 *
 * Operands look random, because a GPU lowers its clock when many bits change.  Each kernel writes
 * its result under a condition that is never true.  The compiler does not know the condition's
 * value, so the compiler cannot drop the computation.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ u32 mixed(u32 x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* Returns two half-precision numbers with random signs and fractions, and magnitudes from 1 to
 * 2. */
static __device__ u32 halves(u32 seed) { return (mixed(seed) & 0x83ff83ffu) | 0x3c003c00u; }

extern "C" __global__ void peak_copy(uint4 *to, const uint4 *from, u64 count)
{
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = from[i];
}

/* Does 2 * CHAINS * rounds floating-point operations in each thread. */
#define CHAINS 16

extern "C" __global__ void peak_fma(float *out, u32 rounds)
{
    float x[CHAINS], a = 0.5f + (float)threadIdx.x * 0x1p-12f, b = 1.0f - a;
    for (int i = 0; i < CHAINS; i++)
        x[i] = (float)(mixed(threadIdx.x * CHAINS + i) & 0xffffu) * 0x1p-16f;
    for (u32 r = 0; r < rounds; r++)
#pragma unroll
        for (int i = 0; i < CHAINS; i++)
            x[i] = x[i] * a + b;
    float sum = 0;
    for (int i = 0; i < CHAINS; i++)
        sum += x[i];
    if (sum == -1.0f)
        out[threadIdx.x] = sum;
}

/* Does TILES * 16 * 8 * 16 multiply-adds in each round and warp. */
#define TILES 8

extern "C" __global__ void peak_mma(float *out, u32 rounds)
{
#if __CUDA_ARCH__ >= 800
    float d[TILES][4] = { { 0 } };
    u32 a[4], b[TILES][2];
    for (int i = 0; i < 4; i++)
        a[i] = halves(threadIdx.x * 4 + i);
    for (int t = 0; t < TILES; t++)
        for (int i = 0; i < 2; i++)
            b[t][i] = halves(4096 + (threadIdx.x * TILES + t) * 2 + i);
    for (u32 r = 0; r < rounds; r++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                         "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[t][0]), "r"(b[t][1]));
    float sum = 0;
    for (int t = 0; t < TILES; t++)
        sum += d[t][0] + d[t][1] + d[t][2] + d[t][3];
    if (sum == -1.0f)
        out[threadIdx.x] = sum;
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* Hopper's wgmma: a warp group multiplies 64x16 by 16x256 numbers from shared memory. A row has 64
 * half-precision numbers in the 128-byte swizzle; blocks of 8 rows are 1024 bytes apart. */
#define ROWS_A 64
#define ROWS_B 256
#define ROW_BYTES 128

static __device__ u64 descriptor(const void *address)
{
    u64 at = (u64)__cvta_generic_to_shared(address);
    return (at & 0x3ffff) >> 4 | (u64)(16 >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

static __device__ void multiply(float *d, u64 a, u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "
                 "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
                 "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "
                 "%120, %121, %122, %123, %124, %125, %126, %127"
                 "}, %128, %129, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                   "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                   "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                   "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                   "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                   "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
                   "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
                   "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                   "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
                   "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),
                   "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),
                   "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
                   "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
                   "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
                   "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),
                   "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
                   "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
                   "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
                   "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
                   "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
                   "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
                   "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
                   "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),
                   "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
                 : "l"(a), "l"(b));
}

/* Does 4 * 64 * 256 * 16 multiply-adds in each round and warp group. */
extern "C" __global__ void __launch_bounds__(256, 1) peak_wgmma(float *out, u32 rounds)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    u32 *words = (u32 *)shared, group = threadIdx.x / 128;
    float d[128];
    for (u32 i = threadIdx.x; i < (2 * ROWS_A + ROWS_B) * ROW_BYTES / 4; i += blockDim.x)
        words[i] = halves(i);
    for (int i = 0; i < 128; i++)
        d[i] = 0;
    asm volatile("fence.proxy.async;");
    __syncthreads();
    u64 a = descriptor(shared + group * ROWS_A * ROW_BYTES);
    u64 b = descriptor(shared + 2 * ROWS_A * ROW_BYTES);
    for (u32 r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
            multiply(d, a + k * 2, b + k * 2); /* 32 bytes further */
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float sum = 0;
    for (int i = 0; i < 128; i++)
        sum += d[i];
    if (sum == -1.0f)
        out[threadIdx.x] = sum;
}
#endif
