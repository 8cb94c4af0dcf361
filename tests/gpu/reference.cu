/* SPDX-License-Identifier: MIT */
/*
 * Kernels with which gpu_trials checks results: they fill random operands, compute the convolution
 * from its definition in double precision, and compare. They share no code with kernels/.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct tensor { /* extents and, in elements, strides: outer, channel, depth, height, width */
    u32 extent[5];
    u64 stride[5];
};

struct shape { /* the same as struct gpu_shape in tests/gpu/judge.c */
    struct tensor x, w, y;
    u32 direction, type, groups, pad[3], stride[3], dilation[3];
};

/* ---- numbers as tensors hold them ---- */

static __device__ double load(u32 type, const void *data, u64 i)
{
    float v;
    if (type == 0)
        return ((const float *)data)[i];
    u16 bits = ((const u16 *)data)[i];
    if (type == 1)
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
    else
        v = __uint_as_float((u32)bits << 16);
    return v;
}

static __device__ void store(u32 type, void *data, u64 i, double value)
{
    float v = (float)value;
    u16 bits;
    if (type == 0) {
        ((float *)data)[i] = v;
        return;
    }
    if (type == 1)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    else
        bits = (u16)((__float_as_uint(v) + 0x7fff + (__float_as_uint(v) >> 16 & 1)) >> 16);
    ((u16 *)data)[i] = bits;
}

/* Rounds |v| to the nearest value of the type, ties to even. All steps are exact in double
 * precision. */
static __device__ double round_to(u32 type, double v)
{
    if (type == 0)
        return (double)(float)v;
    int fraction = type == 1 ? 10 : 7, least = type == 1 ? -14 : -126;
    double most = type == 1 ? 65504.0 : 3.3895313892515355e38;
    if (v == 0 || isinf(v) || isnan(v))
        return v;
    int exponent = ilogb(v);
    double unit = scalbn(1.0, (exponent < least ? least : exponent) - fraction);
    double rounded = rint(v / unit) * unit;
    return fabs(rounded) > most ? copysign(__longlong_as_double(0x7ff0000000000000ll), v) : rounded;
}

/* ---- operands ---- */

static __device__ u64 mix(u64 z)
{
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Random values below 1 in magnitude: odd multiples of 2^-bits or, if |bits| is 0, any multiples of
 * 2^-29. */
extern "C" __global__ void fill(void *data, u64 count, u32 type, u32 bits, u64 seed)
{
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (u64)gridDim.x * blockDim.x) {
        u64 random = mix(seed ^ mix(i));
        double value = bits ? ((double)((random >> 32 & ((1u << bits) - 1)) * 2 + 1) - (1 << bits)) /
                                  (1 << bits)
                            : (double)(random >> 34) / (1 << 29) - 1;
        store(type, data, i, value);
    }
}

/* Adds up the words of an operand. Called before and after a trial, to detect a kernel that writes
 * to an operand. */
extern "C" __global__ void checksum(const u16 *data, u64 count, u64 *sum)
{
    u64 own = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (u64)gridDim.x * blockDim.x)
        own += mix(i * 65536 + data[i]);
    atomicAdd(sum, own);
}

/* ---- the convolution ---- */

struct sum {
    double value, magnitude;
};

static __device__ void add(struct sum *s, double a, double b)
{
    s->value += a * b;
    s->magnitude += fabs(a * b);
}

static __device__ u64 at(const struct tensor *t, u32 outer, u32 channel, u32 d, u32 h, u32 w)
{
    return outer * t->stride[0] + channel * t->stride[1] + d * t->stride[2] + h * t->stride[3] +
           w * t->stride[4];
}

/* Returns false if the input is in the padding. */
static __device__ bool input(const struct shape *s, int axis, u32 out, u32 tap, u32 *in)
{
    long long i = (long long)out * s->stride[axis] + (long long)tap * s->dilation[axis] -
                  s->pad[axis];
    *in = (u32)i;
    return i >= 0 && i < s->x.extent[2 + axis];
}

/* Returns false if |in| contributes to no output through |tap|. */
static __device__ bool output(const struct shape *s, int axis, u32 in, u32 tap, u32 *out)
{
    long long i = (long long)in + s->pad[axis] - (long long)tap * s->dilation[axis];
    *out = (u32)(i / s->stride[axis]);
    return i >= 0 && i % s->stride[axis] == 0 && *out < s->y.extent[2 + axis];
}

static __device__ struct sum forward(const struct shape *s, const u32 p[5], const void *x,
                                     const void *w)
{
    u32 group_c = s->w.extent[1], group_k = s->w.extent[0] / s->groups;
    u32 first_c = p[1] / group_k * group_c, d, h, v;
    struct sum sum = { 0, 0 };
    for (u32 a = 0; a < s->w.extent[2]; a++)
        for (u32 b = 0; b < s->w.extent[3]; b++)
            for (u32 c = 0; c < s->w.extent[4]; c++)
                if (input(s, 0, p[2], a, &d) && input(s, 1, p[3], b, &h) && input(s, 2, p[4], c, &v))
                    for (u32 i = 0; i < group_c; i++)
                        add(&sum, load(s->type, x, at(&s->x, p[0], first_c + i, d, h, v)),
                            load(s->type, w, at(&s->w, p[1], i, a, b, c)));
    return sum;
}

static __device__ struct sum backward_data(const struct shape *s, const u32 p[5], const void *w,
                                           const void *y)
{
    u32 group_c = s->w.extent[1], group_k = s->w.extent[0] / s->groups;
    u32 first_k = p[1] / group_c * group_k, d, h, v;
    struct sum sum = { 0, 0 };
    for (u32 a = 0; a < s->w.extent[2]; a++)
        for (u32 b = 0; b < s->w.extent[3]; b++)
            for (u32 c = 0; c < s->w.extent[4]; c++)
                if (output(s, 0, p[2], a, &d) && output(s, 1, p[3], b, &h) &&
                    output(s, 2, p[4], c, &v))
                    for (u32 i = 0; i < group_k; i++)
                        add(&sum, load(s->type, y, at(&s->y, p[0], first_k + i, d, h, v)),
                            load(s->type, w, at(&s->w, first_k + i, p[1] % group_c, a, b, c)));
    return sum;
}

/* Computes a part of the sum: every |of|-th output from |part| on. */
static __device__ struct sum backward_weights(const struct shape *s, const u32 p[5], const void *x,
                                              const void *y, u32 part, u32 of)
{
    u32 group_c = s->w.extent[1], group_k = s->w.extent[0] / s->groups;
    u32 channel = p[0] / group_k * group_c + p[1], d, h, v;
    u64 outputs = (u64)s->y.extent[0] * s->y.extent[2] * s->y.extent[3] * s->y.extent[4];
    struct sum sum = { 0, 0 };
    for (u64 i = part; i < outputs; i += of) {
        u64 rest = i;
        u32 ow = (u32)(rest % s->y.extent[4]);
        rest /= s->y.extent[4];
        u32 oh = (u32)(rest % s->y.extent[3]);
        rest /= s->y.extent[3];
        u32 od = (u32)(rest % s->y.extent[2]), n = (u32)(rest / s->y.extent[2]);
        if (input(s, 0, od, p[2], &d) && input(s, 1, oh, p[3], &h) && input(s, 2, ow, p[4], &v))
            add(&sum, load(s->type, x, at(&s->x, n, channel, d, h, v)),
                load(s->type, y, at(&s->y, n, p[0], od, oh, ow)));
    }
    return sum;
}

static __device__ struct tensor output_of(const struct shape *s)
{
    return s->direction == 0 ? s->y : s->direction == 1 ? s->x : s->w;
}

static __device__ void locate(const struct tensor *t, u64 i, u32 p[5])
{
    bool last = t->stride[1] == 1 && t->extent[1] > 1;
    u64 rest = i;
    if (last) {
        p[1] = (u32)(rest % t->extent[1]);
        rest /= t->extent[1];
    }
    for (int axis = 4; axis >= 2; axis--) {
        p[axis] = (u32)(rest % t->extent[axis]);
        rest /= t->extent[axis];
    }
    if (!last) {
        p[1] = (u32)(rest % t->extent[1]);
        rest /= t->extent[1];
    }
    p[0] = (u32)rest;
}

/* Computes an output with each thread. An output of backward weights, whose sums are long, is
 * computed by a block of 128 threads. */
extern "C" __global__ void __launch_bounds__(128)
    reference(struct shape s, const void *x, const void *w, const void *y, u64 count, double *want,
              double *magnitude)
{
    __shared__ struct sum parts[128];
    struct tensor t = output_of(&s);
    u64 step = s.direction == 2 ? gridDim.x : (u64)gridDim.x * blockDim.x;
    u64 first = s.direction == 2 ? blockIdx.x : (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u32 p[5];
    for (u64 i = first; i < count; i += step) {
        struct sum sum;
        locate(&t, i, p);
        if (s.direction == 0)
            sum = forward(&s, p, x, w);
        else if (s.direction == 1)
            sum = backward_data(&s, p, w, y);
        else
            sum = backward_weights(&s, p, x, y, threadIdx.x, blockDim.x);
        if (s.direction == 2) {
            parts[threadIdx.x] = sum;
            for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
                __syncthreads();
                if (threadIdx.x < half) {
                    parts[threadIdx.x].value += parts[threadIdx.x + half].value;
                    parts[threadIdx.x].magnitude += parts[threadIdx.x + half].magnitude;
                }
            }
            __syncthreads();
            sum = parts[0];
            __syncthreads();
        }
        if (s.direction != 2 || threadIdx.x == 0) {
            want[i] = sum.value;
            magnitude[i] = sum.magnitude;
        }
    }
}

/* ---- the verdict ---- */

struct verdict {
    u64 wrong, first; /* |first| is the index of the first wrong element */
    u64 error; /* bits of a double: the largest |got - want| / magnitude */
};

/* Applies the bounds of rounding_bound (cli/driver/rounding.h), like reference_compare. */
extern "C" __global__ void compare(u32 type, const void *got, const double *want,
                                   const double *magnitude, u64 count, double relative,
                                   double absolute, double exact_below, struct verdict *verdict)
{
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (u64)gridDim.x * blockDim.x) {
        double value = load(type, got, i);
        double bound = magnitude[i] <= exact_below ? 0 : relative * magnitude[i] + absolute;
        bool right = value >= round_to(type, want[i] - bound) &&
                     value <= round_to(type, want[i] + bound);
        double error = value == want[i] ? 0 : fabs(value - want[i]) / magnitude[i];
        if (!right) {
            atomicAdd(&verdict->wrong, 1ull);
            atomicMin(&verdict->first, i);
        } else if (error > __longlong_as_double(verdict->error)) {
            atomicMax(&verdict->error, (u64)__double_as_longlong(error));
        }
    }
}
