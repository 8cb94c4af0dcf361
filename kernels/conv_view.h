/* SPDX-License-Identifier: MIT */
/*
 * Maps pixels of a convolution's result to the pixels of its source that contribute to them.
 * Included as "kiln/conv_view.h" by kernels that multiply pixels with channels.  Reads
 * KILN_DIRECTION and the sizes IN OUT FILTER PAD STRIDE DILATION TAP_STEP, _D _H _W.
 *
 * Forward: the result is y, the source x.  Backward weights: the same pairs of pixels, which the
 * sum runs over.  Backward data: the result is x, the source y.  It is computed for one residue
 * class at a time: the pixels of x whose padded coordinates have the same residues modulo the
 * strides.  The same taps contribute to all pixels of a class (engine/solver/conv_bulk.c explains
 * this).
 *
 *   view_of(residue)          the view of a class; forward and backward weights: residue 0
 *   pixel_at(view, index)     pixel number |index| of the batch
 *   inside(at, limit)         whether a coordinate is inside the source
 */
#ifndef KILN_CONV_VIEW_H
#define KILN_CONV_VIEW_H

#include "kiln/prelude.h"

#define FORWARD (KILN_DIRECTION == 0)
#define DATA (KILN_DIRECTION == 1)
#define WEIGHTS (KILN_DIRECTION == 2)

struct axis {
    kiln_u32 pixels;
    kiln_u32 first, step;   /* result coordinates of these pixels: first + i * step */
    int scale, origin, hop; /* coordinate in the source: pixel * scale + origin + tap * hop */
    kiln_u32 limit; /* size of the source */
    kiln_u32 taps; /* number of taps that contribute to the class */
    kiln_u32 tap, tap_step; /* filter coordinates of these taps: tap + i * tap_step */
};

struct view {
    struct axis d, h, w;
};

KILN_INLINE struct axis forward_axis(int in, int out, int filter, int pad, int stride, int dilation)
{
    struct axis a;
    a.pixels = out;
    a.first = 0;
    a.step = 1;
    a.scale = stride;
    a.origin = -pad;
    a.hop = dilation;
    a.limit = in;
    a.taps = filter;
    a.tap = 0;
    a.tap_step = 1;
    return a;
}

KILN_INLINE struct axis data_axis(int in, int out, int filter, int pad, int stride, int dilation,
                                  int tap_step, int residue)
{
    struct axis a;
    int first = (residue + stride - pad % stride) % stride, tap = 0;
    while (tap < tap_step && tap * dilation % stride != residue)
        tap++;
    int met = tap < tap_step && tap < filter;
    a.pixels = first < in ? (in - first + stride - 1) / stride : 0;
    a.first = first;
    a.step = stride;
    a.scale = 1;
    a.origin = (first + pad - tap * dilation) / stride; /* a whole number if any tap contributes */
    a.hop = -(tap_step * dilation / stride);
    a.limit = out;
    a.taps = met ? (filter - tap + tap_step - 1) / tap_step : 0;
    a.tap = tap;
    a.tap_step = tap_step;
    return a;
}

#define FORWARD_AXIS(a)                                                                     \
    forward_axis(KILN_IN_##a, KILN_OUT_##a, KILN_FILTER_##a, KILN_PAD_##a, KILN_STRIDE_##a, \
                 KILN_DILATION_##a)
#define DATA_AXIS(a, residue)                                                            \
    data_axis(KILN_IN_##a, KILN_OUT_##a, KILN_FILTER_##a, KILN_PAD_##a, KILN_STRIDE_##a, \
              KILN_DILATION_##a, KILN_TAP_STEP_##a, residue)

KILN_INLINE struct view view_of(kiln_u32 residue)
{
    struct view v;
#if DATA
    v.w = DATA_AXIS(W, residue % KILN_STRIDE_W);
    v.h = DATA_AXIS(H, residue / KILN_STRIDE_W % KILN_STRIDE_H);
    v.d = DATA_AXIS(D, residue / (KILN_STRIDE_W * KILN_STRIDE_H));
#else
    v.w = FORWARD_AXIS(W);
    v.h = FORWARD_AXIS(H);
    v.d = FORWARD_AXIS(D);
#endif
    return v;
}

struct pixel {
    kiln_u32 n, d, h, w;
};

KILN_INLINE struct pixel pixel_at(const struct view *v, kiln_u32 index)
{
    struct pixel p;
    p.w = index % v->w.pixels;
    index /= v->w.pixels;
    p.h = index % v->h.pixels;
    index /= v->h.pixels;
    p.d = index % v->d.pixels;
    p.n = index / v->d.pixels;
    return p;
}

KILN_INLINE int inside(int at, kiln_u32 limit) { return (kiln_u32)at < limit; }
#endif
