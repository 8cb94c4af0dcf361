/* SPDX-License-Identifier: MIT */
/*
 * The sizes of a convolution as kernel arguments, for conv_generic.cl and conv_generic_mma.cl,
 * which include it as "kiln/conv_sizes.h".
 *
 *   SIZE_PARAMETERS           parameters of a kernel, or of a function that gets all of them
 *   SIZE_ARGUMENTS            passes them on
 *   take_sizes(s, n, SIZE_ARGUMENTS)
 *                             fills a struct sizes
 *   view_of_sizes(s, residue)
 *                             view_of of kiln/conv_view.h, which this file includes
 *   pixel_of(s, index)        the position of pixel |index| of y in the batch (not in backward
 *                             data)
 *   KILN_C, KILN_IN_W, ...    the options of other kernels: members of SIZES, a struct sizes *,
 *                             which the including file defines if it uses them
 *
 * KILN_LAST is 1 if the channels of all tensors come last, 0 if they come first.
 */
#ifndef KILN_CONV_SIZES_H
#define KILN_CONV_SIZES_H

#include "kiln/prelude.h"

/* Distances between neighbours, in elements. */
struct strides {
    kiln_u32 w, h, d, c, n;
};

/* Division by a number that is the same for all items: a product and a shift, exact for dividends
 * below 2^31 (Granlund and Montgomery, "Division by Invariant Integers using Multiplication"). */
struct divisor {
    kiln_u32 factor, shift;
};

struct sizes {
    kiln_u32 n, c, k, groups; /* c and k: channels of one group */
    kiln_u32 in_d, in_h, in_w, out_d, out_h, out_w, filter_d, filter_h, filter_w;
    kiln_u32 pad_d, pad_h, pad_w, stride_d, stride_h, stride_w, dilation_d, dilation_h, dilation_w;
    kiln_u32 tap_step_d, tap_step_h, tap_step_w; /* backward data: stride / gcd(stride, dilation) */
    struct divisor by_d, by_h, by_w;             /* other directions: the sizes of y */
    struct strides x, y;
    kiln_u32 taps, w_tap, w_c, w_k;
};

#define KILN_C SIZES->c
#define KILN_K SIZES->k
#define KILN_GROUPS SIZES->groups
#define KILN_IN_D SIZES->in_d
#define KILN_IN_H SIZES->in_h
#define KILN_IN_W SIZES->in_w
#define KILN_OUT_D SIZES->out_d
#define KILN_OUT_H SIZES->out_h
#define KILN_OUT_W SIZES->out_w
#define KILN_FILTER_D SIZES->filter_d
#define KILN_FILTER_H SIZES->filter_h
#define KILN_FILTER_W SIZES->filter_w
#define KILN_PAD_D SIZES->pad_d
#define KILN_PAD_H SIZES->pad_h
#define KILN_PAD_W SIZES->pad_w
#define KILN_STRIDE_D SIZES->stride_d
#define KILN_STRIDE_H SIZES->stride_h
#define KILN_STRIDE_W SIZES->stride_w
#define KILN_DILATION_D SIZES->dilation_d
#define KILN_DILATION_H SIZES->dilation_h
#define KILN_DILATION_W SIZES->dilation_w
#define KILN_TAP_STEP_D SIZES->tap_step_d
#define KILN_TAP_STEP_H SIZES->tap_step_h
#define KILN_TAP_STEP_W SIZES->tap_step_w

#if KILN_DIRECTION == 1
#define LAST_PARAMETERS kiln_u32 tap_step_d, kiln_u32 tap_step_h, kiln_u32 tap_step_w
#define LAST_ARGUMENTS tap_step_d, tap_step_h, tap_step_w
#else
#define LAST_PARAMETERS \
    kiln_u32 factor_d, kiln_u32 factor_h, kiln_u32 factor_w, kiln_u32 shifts /* of 8 bits each */
#define LAST_ARGUMENTS factor_d, factor_h, factor_w, shifts
#endif

#define AXES_OF(name) kiln_u32 name##_d, kiln_u32 name##_h, kiln_u32 name##_w
#define AXES(name) name##_d, name##_h, name##_w
#define SIZE_PARAMETERS                                                                      \
    kiln_u32 c, kiln_u32 k, kiln_u32 groups, AXES_OF(in), AXES_OF(out), AXES_OF(filter),     \
        AXES_OF(pad), AXES_OF(stride), AXES_OF(dilation), LAST_PARAMETERS
#define SIZE_ARGUMENTS                                                                         \
    c, k, groups, AXES(in), AXES(out), AXES(filter), AXES(pad), AXES(stride), AXES(dilation),  \
        LAST_ARGUMENTS

KILN_INLINE struct strides strides_of(kiln_u32 channels, kiln_u32 d, kiln_u32 h, kiln_u32 w)
{
    struct strides s;
    s.w = KILN_LAST ? channels : 1;
    s.h = s.w * w;
    s.d = s.h * h;
    s.c = KILN_LAST ? 1 : d * h * w;
    s.n = channels * d * h * w;
    return s;
}

KILN_INLINE void derive_strides(struct sizes *s)
{
    s->x = strides_of(s->c * s->groups, s->in_d, s->in_h, s->in_w);
    s->y = strides_of(s->k * s->groups, s->out_d, s->out_h, s->out_w);
    s->taps = s->filter_d * s->filter_h * s->filter_w;
    s->w_tap = KILN_LAST ? s->c : 1;
    s->w_c = KILN_LAST ? 1 : s->taps;
    s->w_k = s->c * s->taps;
}

#define TAKE(name) s->name = name
#define TAKE_AXES(name) TAKE(name##_d), TAKE(name##_h), TAKE(name##_w)

KILN_INLINE void take_sizes(struct sizes *s, kiln_u32 n, SIZE_PARAMETERS)
{
    TAKE(n), TAKE(c), TAKE(k), TAKE(groups);
    TAKE_AXES(in), TAKE_AXES(out), TAKE_AXES(filter);
    TAKE_AXES(pad), TAKE_AXES(stride), TAKE_AXES(dilation);
#if KILN_DIRECTION == 1
    TAKE_AXES(tap_step);
#else
    s->tap_step_d = s->tap_step_h = s->tap_step_w = 1;
    s->by_d.factor = factor_d;
    s->by_h.factor = factor_h;
    s->by_w.factor = factor_w;
    s->by_d.shift = shifts & 255;
    s->by_h.shift = shifts >> 8 & 255;
    s->by_w.shift = shifts >> 16 & 255;
#endif
    derive_strides(s);
}

KILN_INLINE kiln_u32 divide(kiln_u32 a, struct divisor by)
{
    return (kiln_u32)((kiln_u64)a * by.factor >> by.shift);
}

/* There, sizes are members of an additional parameter. */
#define SIZES s
#define view_of(residue) view_of_sizes(const struct sizes *s, residue)
#include "kiln/conv_view.h"
#undef view_of
#undef SIZES

KILN_INLINE struct pixel pixel_of(const struct sizes *s, kiln_u32 index)
{
    struct pixel p;
    kiln_u32 rows = divide(index, s->by_w), planes = divide(rows, s->by_h);
    p.n = divide(planes, s->by_d);
    p.w = index - rows * s->out_w;
    p.h = rows - planes * s->out_h;
    p.d = planes - p.n * s->out_d;
    return p;
}

#endif
