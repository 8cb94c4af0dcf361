/* SPDX-License-Identifier: MIT */
/*
 * ConvPointwise: 1x1 convolutions without strides and pads, with channels first, that read or
 * compute few channels.  There are few products for each element, so reading or writing the other
 * tensor takes most of the time.
 *
 *     to[image][group][t][pixel] = sum over f of weight[group][t][f] * from[image][group][f][pixel]
 *
 * An item has KILN_VECTOR neighbouring pixels.  The weights of a work group are in shared memory.
 *
 *   conv_pointwise_spread   reads few channels: an item reads them once, and computes KILN_CHANNELS
 *                           channels, one after the other
 *   conv_pointwise_gather   computes few channels: an item keeps their sums in registers.
 *                           KILN_PARTS items share the channels that are read
 *
 * Every size but the batch is defined by -D:
 *   KILN_TYPE                the tensors' type
 *   KILN_GROUPS              groups of the convolution
 *   KILN_FROM, KILN_TO       channels of a group that are read and computed
 *   KILN_W_FROM, KILN_W_TO   distance of the weights of two neighbouring channels
 *   KILN_PIXELS              pixels of an image
 *   KILN_VECTOR              1 or 4; 4 only if KILN_PIXELS is a multiple of 4
 *   KILN_CHANNELS, KILN_PARTS   as above; the other one is 0
 *   KILN_ITEMS               items of a work group
 * Memory is 16-byte aligned.
 */
#include "kiln/prelude.h"

#define LANES (KILN_PARTS ? KILN_ITEMS / KILN_PARTS : KILN_ITEMS)
#define TILES ((KILN_PIXELS - 1) / (LANES * KILN_VECTOR) + 1)

KILN_INLINE void get_pixels(KILN_GLOBAL const kiln_value *from, kiln_u32 at, float *pixels)
{
    if (KILN_VECTOR == 4) {
        kiln_float4 four = kiln_load4(from, at);
        pixels[0] = four.x;
        pixels[1 % KILN_VECTOR] = four.y;
        pixels[2 % KILN_VECTOR] = four.z;
        pixels[3 % KILN_VECTOR] = four.w;
    } else {
        pixels[0] = kiln_load(from, at);
    }
}

KILN_INLINE void put_pixels(KILN_GLOBAL kiln_value *to, kiln_u32 at, const float *sums)
{
    if (KILN_VECTOR == 4)
        kiln_store4(to, at,
                    kiln_make4(sums[0], sums[1 % KILN_VECTOR], sums[2 % KILN_VECTOR],
                               sums[3 % KILN_VECTOR]));
    else
        kiln_store(to, at, sums[0]);
}

#if KILN_PARTS

#define T_ROW ((KILN_TO + 3) / 4 * 4)
#define DEPTH 8 /* channels that an item reads at a time */
#define SUMS (KILN_TO * KILN_VECTOR)

KILN_INLINE void fetch_weights(KILN_GLOBAL const kiln_value *w, KILN_LOCAL float *weights)
{
    for (kiln_u32 i = kiln_item(); i < KILN_FROM * T_ROW; i += KILN_ITEMS) {
        kiln_u32 from = i / T_ROW, to = i % T_ROW;
        float value = 0;
        if (to < KILN_TO)
            value = kiln_load(w, to * KILN_W_TO + from * KILN_W_FROM);
        weights[i] = value;
    }
}

KILN_INLINE void multiply(KILN_LOCAL const float *some_w, const float *pixels, float *sums)
{
    float weights[T_ROW];
    KILN_UNROLL
    for (kiln_u32 t = 0; t < T_ROW; t += 4)
        kiln_get_shared4(some_w + t, weights + t);
    KILN_UNROLL
    for (kiln_u32 t = 0; t < KILN_TO; t++) {
        KILN_UNROLL
        for (kiln_u32 v = 0; v < KILN_VECTOR; v++)
            sums[t * KILN_VECTOR + v] += weights[t] * pixels[v];
    }
}

KILN_INLINE void add_channels(KILN_GLOBAL const kiln_value *from, KILN_LOCAL const float *weights,
                              kiln_u32 part, float *sums)
{
    float pixels[DEPTH * KILN_VECTOR];
    for (kiln_u32 f = part * DEPTH; f < KILN_FROM; f += KILN_PARTS * DEPTH) {
        KILN_UNROLL
        for (kiln_u32 d = 0; d < DEPTH; d++)
            if (KILN_FROM % DEPTH == 0 || f + d < KILN_FROM)
                get_pixels(from, (f + d) * KILN_PIXELS, pixels + d * KILN_VECTOR);
        KILN_UNROLL
        for (kiln_u32 d = 0; d < DEPTH; d++)
            if (KILN_FROM % DEPTH == 0 || f + d < KILN_FROM)
                multiply(weights + (f + d) * T_ROW, pixels + d * KILN_VECTOR, sums);
    }
}

/* Adds the sums of all parts to those of the first part, in order. */
KILN_INLINE void add_parts(KILN_LOCAL float *parts, kiln_u32 part, kiln_u32 lane, float *sums)
{
    if (part > 0) {
        KILN_UNROLL
        for (kiln_u32 i = 0; i < SUMS; i++)
            parts[((part - 1) * SUMS + i) * LANES + lane] = sums[i];
    }
    kiln_barrier();
    if (part > 0)
        return;
    for (kiln_u32 p = 0; p < KILN_PARTS - 1; p++) {
        KILN_UNROLL
        for (kiln_u32 i = 0; i < SUMS; i++)
            sums[i] += parts[(p * SUMS + i) * LANES + lane];
    }
}

KILN_KERNEL(KILN_ITEMS)
void conv_pointwise_gather(KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                           KILN_GLOBAL const kiln_value *KILN_RESTRICT from,
                           KILN_GLOBAL kiln_value *KILN_RESTRICT to)
{
    KILN_SHARED16 float some_w[KILN_FROM * T_ROW];
    KILN_SHARED float parts[KILN_PARTS > 1 ? (KILN_PARTS - 1) * SUMS * LANES : 1];
    float sums[SUMS] = { 0 };
    kiln_u32 id = kiln_group(), lane = kiln_item() % LANES, part = kiln_item() / LANES;
    kiln_u32 pixel = (id % TILES * LANES + lane) * KILN_VECTOR, plane = id / TILES;

    fetch_weights(w + plane % KILN_GROUPS * (KILN_FROM * KILN_TO), some_w);
    kiln_barrier();
    if (pixel < KILN_PIXELS)
        add_channels(from + plane * KILN_FROM * KILN_PIXELS + pixel, some_w, part, sums);
    if (KILN_PARTS > 1)
        add_parts(parts, part, lane, sums);
    if (part > 0 || pixel >= KILN_PIXELS)
        return;
    KILN_UNROLL
    for (kiln_u32 t = 0; t < KILN_TO; t++)
        put_pixels(to, (plane * KILN_TO + t) * KILN_PIXELS + pixel, sums + t * KILN_VECTOR);
}

#else

#define BLOCKS ((KILN_TO + KILN_CHANNELS - 1) / KILN_CHANNELS)
#define HAS_CHANNEL(channel) (KILN_TO % KILN_CHANNELS == 0 || (channel) < KILN_TO)
#define W_ROW ((KILN_FROM + 3) / 4 * 4)

KILN_INLINE void fetch_weights(KILN_GLOBAL const kiln_value *w, kiln_u32 first,
                               KILN_LOCAL float *weights)
{
    for (kiln_u32 i = kiln_item(); i < KILN_CHANNELS * W_ROW; i += KILN_ITEMS) {
        kiln_u32 to = first + i / W_ROW, from = i % W_ROW;
        float value = 0;
        if (HAS_CHANNEL(to) && from < KILN_FROM)
            value = kiln_load(w, to * KILN_W_TO + from * KILN_W_FROM);
        weights[i] = value;
    }
}

KILN_KERNEL(KILN_ITEMS)
void conv_pointwise_spread(KILN_GLOBAL const kiln_value *KILN_RESTRICT w,
                           KILN_GLOBAL const kiln_value *KILN_RESTRICT from,
                           KILN_GLOBAL kiln_value *KILN_RESTRICT to)
{
    KILN_SHARED16 float some_w[KILN_CHANNELS * W_ROW];
    float pixels[KILN_FROM * KILN_VECTOR];
    kiln_u32 id = kiln_group();
    kiln_u32 pixel = (id % TILES * KILN_ITEMS + kiln_item()) * KILN_VECTOR;
    kiln_u32 first = id / TILES % BLOCKS * KILN_CHANNELS, plane = id / (TILES * BLOCKS);

    fetch_weights(w + plane % KILN_GROUPS * (KILN_FROM * KILN_TO), first, some_w);
    kiln_barrier();
    if (pixel >= KILN_PIXELS)
        return;
    KILN_UNROLL
    for (kiln_u32 f = 0; f < KILN_FROM; f++)
        get_pixels(from, (plane * KILN_FROM + f) * KILN_PIXELS + pixel, pixels + f * KILN_VECTOR);
    KILN_UNROLL
    for (kiln_u32 t = 0; t < KILN_CHANNELS; t++) {
        float weights[W_ROW], sums[KILN_VECTOR] = { 0 };
        if (!HAS_CHANNEL(first + t))
            continue;
        KILN_UNROLL
        for (kiln_u32 f = 0; f < W_ROW; f += 4)
            kiln_get_shared4(some_w + t * W_ROW + f, weights + f);
        KILN_UNROLL
        for (kiln_u32 f = 0; f < KILN_FROM; f++) {
            KILN_UNROLL
            for (kiln_u32 v = 0; v < KILN_VECTOR; v++)
                sums[v] += weights[f] * pixels[f * KILN_VECTOR + v];
        }
        put_pixels(to, (plane * KILN_TO + first + t) * KILN_PIXELS + pixel, sums);
    }
}

#endif
