/* SPDX-License-Identifier: MIT */
/*
 * Converts tensors to the layout that the matrix-core kernels read ("packed"), and results back to
 * the caller's layout ("plain").
 *
 * The packed layout is outer, d, h, w, group, channel.  The outer axis has entries: the images n,
 * or the output channels k of a group.  The channels of a group, the pixels of a row and the outer
 * entries are padded with zeros.  Options:
 *   KILN_PLAIN_LAST                1 where plain's channels come last
 *   KILN_GROUPS                    groups of channels
 *   KILN_C KILN_C_PACKED           channels of a group, plain and packed; packed is a multiple of
 *                                  CHUNK, or a smaller power of two
 *   KILN_D KILN_H KILN_W           plain pixels along each axis
 *   KILN_W_PACKED KILN_W_FIRST     pixels of a packed row; index of the first plain one in it
 *   KILN_OUTER KILN_OUTER_PACKED   number of outer entries, plain and packed; both are 1 if they
 *                                  are not padded
 *   KILN_TURNED                    optional, only for packing: exchanges channels and entries.  C
 *                                  and OUTER then describe the packed tensor
 *   KILN_PARTIAL                   only for unpacking: 1 if the packed tensor has fp32 slices,
 *                                  which are summed
 *   KILN_PATCH_D, _H, _W           optional: a packed pixel is a patch of this many plain pixels
 *                                  (engine/solver/conv_packing.h).  There are KILN_PATCHES_D x _H x
 *                                  _W patches; their pixels outside the image are zero.
 *                                  KILN_PATCH_TAP and KILN_PATCH_C are the distances of elements of
 *                                  a packed pixel.  KILN_FOURS is 1 if every four neighbouring
 *                                  plain elements are also neighbours when packed
 *   KILN_TOGETHER                  optional, a power of two: for tensors where plain neighbours are
 *                                  not packed neighbours.  32 neighbouring items then copy this
 *                                  many chunks of each of 32 / KILN_TOGETHER pixels
 *   KILN_GROUP_SIZE                items of a work group
 * A packed row is a multiple of CHUNK elements, which are 16 bytes.
 */
#include "kiln/prelude.h"

#if KILN_TYPE == 0
typedef float bits; /* an element, which is copied without conversion */
#define CHUNK 4
#else
typedef unsigned short bits;
#define CHUNK 8
#endif

#ifdef KILN_PATCH_W
#define PACKED_D KILN_PATCHES_D
#define PACKED_H KILN_PATCHES_H
#define PATCH_TAPS (KILN_PATCH_D * KILN_PATCH_H * KILN_PATCH_W)
#else
#define PACKED_D KILN_D
#define PACKED_H KILN_H
#endif

#if defined(KILN_FOURS) && KILN_FOURS
#define RUN 4 /* elements that are neighbours in both tensors and are copied together */
#else
#define RUN 1
#endif

#define CHANNELS (KILN_C * KILN_GROUPS)
#define PACKED_PIXEL (KILN_C_PACKED * KILN_GROUPS)

struct spot {
    kiln_u32 outer, d, h, w, group, c;
};

KILN_DEVICE kiln_u32 plain_at(const struct spot *s)
{
#ifdef KILN_TURNED
    kiln_u32 entry = s->outer / KILN_OUTER * KILN_C + s->c;
    kiln_u32 channel = s->outer % KILN_OUTER, channels = KILN_OUTER;
#else
    kiln_u32 entry = s->outer;
    kiln_u32 channel = s->group * KILN_C + s->c, channels = CHANNELS;
#endif
#if KILN_PLAIN_LAST
    return (((entry * KILN_D + s->d) * KILN_H + s->h) * KILN_W + s->w) * channels + channel;
#else
    return (((entry * channels + channel) * KILN_D + s->d) * KILN_H + s->h) * KILN_W + s->w;
#endif
}

KILN_DEVICE kiln_u32 packed_at(const struct spot *s)
{
    kiln_u32 row = (s->outer * PACKED_D + s->d) * PACKED_H + s->h;
    return (row * KILN_W_PACKED + s->w) * PACKED_PIXEL + s->group * KILN_C_PACKED + s->c;
}

/* Reads RUN elements, which begin at a multiple of RUN. */
KILN_INLINE void get_run(KILN_GLOBAL const bits *from, bits *ret)
{
#if KILN_TYPE == 0 || RUN == 1
    for (int i = 0; i < RUN; i++)
        ret[i] = from[i];
#else
    for (int i = 0; i < RUN; i += 2) {
        kiln_u32 two = *(KILN_GLOBAL const kiln_u32 *)(from + i);
        ret[i] = (bits)two;
        ret[i + 1] = (bits)(two >> 16);
    }
#endif
}

KILN_INLINE void put_run(KILN_GLOBAL bits *to, const bits *v)
{
#if KILN_TYPE == 0 || RUN == 1
    for (int i = 0; i < RUN; i++)
        to[i] = v[i];
#else
    for (int i = 0; i < RUN; i += 2)
        *(KILN_GLOBAL kiln_u32 *)(to + i) = v[i] | (kiln_u32)v[i + 1] << 16;
#endif
}

#ifdef KILN_PATCH_W
/* Finds the plain element that is element |i| of patch |s|.  Returns 0 if the patch has fewer
 * elements. */
KILN_DEVICE int plain_of(const struct spot *s, kiln_u32 i, struct spot *plain)
{
    kiln_u32 tap = i / KILN_PATCH_TAP % PATCH_TAPS;
    plain->outer = s->outer;
    plain->d = s->d * KILN_PATCH_D + tap / (KILN_PATCH_H * KILN_PATCH_W);
    plain->h = s->h * KILN_PATCH_H + tap / KILN_PATCH_W % KILN_PATCH_H;
    plain->w = s->w * KILN_PATCH_W + tap % KILN_PATCH_W;
    plain->group = 0;
    plain->c = i / KILN_PATCH_C % KILN_C;
    return i < PATCH_TAPS * KILN_C;
}
/* Finds the patch element that is |plain|.  Returns 0 if it belongs to no patch. */
KILN_DEVICE int patch_of(const struct spot *plain, struct spot *s)
{
    kiln_u32 row = plain->d % KILN_PATCH_D * KILN_PATCH_H + plain->h % KILN_PATCH_H;
    s->outer = plain->outer;
    s->d = plain->d / KILN_PATCH_D;
    s->h = plain->h / KILN_PATCH_H;
    s->w = plain->w / KILN_PATCH_W;
    s->group = 0;
    s->c = (row * KILN_PATCH_W + plain->w % KILN_PATCH_W) * KILN_PATCH_TAP +
           plain->c * KILN_PATCH_C;
    return s->d < KILN_PATCHES_D && s->h < KILN_PATCHES_H && s->w < KILN_PATCHES_W;
}
#endif

#ifdef KILN_TOGETHER

/*
 * Assigns chunks to items so that each read and each write of 32 items fills whole sectors of 32
 * bytes.  For fp32 with KILN_TOGETHER 4, 32 items read 8 neighbouring pixels of 4 channels at a
 * time, and write 64 bytes of each pixel.  Returns the number of the item's pixel, and its chunk
 * among |chunks|.
 */
KILN_DEVICE kiln_u32 pixel_of_item(kiln_u32 chunks, kiln_u32 *ret_chunk)
{
    kiln_u32 pixels = 32 / KILN_TOGETHER, columns = chunks / KILN_TOGETHER;
    kiln_u32 row = kiln_item() / 32 * pixels + kiln_item() % pixels;
    *ret_chunk = kiln_group() % columns * KILN_TOGETHER + kiln_item() / pixels % KILN_TOGETHER;
    return kiln_group() / columns * (KILN_GROUP_SIZE / KILN_TOGETHER) + row;
}

#endif

#ifndef KILN_PARTIAL

#define CHUNK_PIXELS (KILN_C_PACKED < CHUNK ? CHUNK / KILN_C_PACKED : 1)
#define ROW_CHUNKS (KILN_W_PACKED / CHUNK_PIXELS)
#define PIXEL_CHUNKS (KILN_C_PACKED < CHUNK ? 1 : PACKED_PIXEL / CHUNK)

/* Position of the first element of this item's chunk.  Items are numbered so that neighbouring
 * items read neighbours of the plain tensor. */
KILN_DEVICE struct spot chunk_at(kiln_u32 outers)
{
    struct spot s;
    kiln_u32 chunk;
#ifdef KILN_TOGETHER
    kiln_u32 item = pixel_of_item(PIXEL_CHUNKS, &chunk);
#else
    kiln_u32 item = kiln_group() * KILN_GROUP_SIZE + kiln_item();
    chunk = item % PIXEL_CHUNKS;
    item /= PIXEL_CHUNKS;
#endif
#ifdef KILN_TURNED /* plain's channels are packed's entries */
    kiln_u32 outer = item % outers;
    item /= outers;
#endif
    s.w = item % ROW_CHUNKS * CHUNK_PIXELS;
    item /= ROW_CHUNKS;
    s.h = item % PACKED_H;
    item /= PACKED_H;
    s.d = item % PACKED_D;
    item /= PACKED_D;
#ifdef KILN_TURNED
    item = item ? outers : outer;
#endif
    s.outer = item;
    s.group = chunk * CHUNK / KILN_C_PACKED;
    s.c = chunk * CHUNK % KILN_C_PACKED;
    return s;
}

/* Fills |outers| entries of the packed tensor. */
KILN_KERNEL(KILN_GROUP_SIZE)
void conv_reorder_pack(KILN_GLOBAL const bits *KILN_RESTRICT plain,
                       KILN_GLOBAL bits *KILN_RESTRICT packed, kiln_u32 outers)
{
    struct spot s = chunk_at(outers);
    if (s.outer >= outers)
        return;
    kiln_u32 to = packed_at(&s);
    kiln_u32 entry = s.outer % KILN_OUTER_PACKED;
    s.outer = s.outer / KILN_OUTER_PACKED * KILN_OUTER + entry;
    s.w -= KILN_W_FIRST; /* may wrap around, which the comparison below detects */
    bits v[CHUNK];
    for (int i = 0; i < CHUNK; i += RUN) {
        struct spot one = s;
        for (int j = 0; j < RUN; j++)
            v[i + j] = 0;
#ifdef KILN_PATCH_W
        int has_it = plain_of(&s, s.c + i, &one);
#else
        one.c += i % KILN_C_PACKED;
        one.w += i / KILN_C_PACKED;
        int has_it = entry < KILN_OUTER && one.c < KILN_C && one.w < KILN_W;
#endif
        if (has_it)
            get_run(plain + plain_at(&one), v + i);
    }
#if KILN_TYPE == 0
    kiln_store4(packed, to, kiln_make4(v[0], v[1], v[2], v[3]));
#else
    for (int i = 0; i < CHUNK; i += 2)
        *(KILN_GLOBAL kiln_u32 *)(packed + to + i) = v[i] | (kiln_u32)v[i + 1] << 16;
#endif
}

#else

#if KILN_PARTIAL
typedef float packed_value;
#else
typedef bits packed_value;
#endif

#ifdef KILN_TOGETHER

#if KILN_PARTIAL

#define PUT(to, index, v) kiln_store(to, index, v)

KILN_INLINE void get_chunk(KILN_GLOBAL const float *from, kiln_u32 slices, kiln_u32 slice_size,
                           float *sum)
{
    for (int j = 0; j < CHUNK; j++)
        sum[j] = 0;
    for (kiln_u32 i = 0; i < slices; i++, from += slice_size) {
        KILN_UNROLL
        for (int j = 0; j < CHUNK; j += 4) {
            kiln_float4 four = *(KILN_GLOBAL const kiln_float4 *)(from + j);
            sum[j] += four.x;
            sum[j + 1] += four.y;
            sum[j + 2] += four.z;
            sum[j + 3] += four.w;
        }
    }
}

#else

#define PUT(to, index, v) (((KILN_GLOBAL bits *)(to))[index] = (v))

KILN_INLINE void get_chunk(KILN_GLOBAL const bits *from, kiln_u32 slices, kiln_u32 slice_size,
                           bits *ret)
{
    kiln_float4 four = *(KILN_GLOBAL const kiln_float4 *)from;
    (void)slices;
    (void)slice_size;
#if KILN_TYPE == 0
    ret[0] = four.x;
    ret[1] = four.y;
    ret[2] = four.z;
    ret[3] = four.w;
#else
    kiln_u32 words[4] = { kiln_float_bits(four.x), kiln_float_bits(four.y), kiln_float_bits(four.z),
                          kiln_float_bits(four.w) };
    KILN_UNROLL
    for (int j = 0; j < CHUNK; j++)
        ret[j] = (bits)(words[j / 2] >> j % 2 * 16);
#endif
}

#endif

/* Fills |outers| entries of the plain tensor.  If KILN_PARTIAL, adds up |slices| slices of
 * |slice_size| elements. */
KILN_KERNEL(KILN_GROUP_SIZE)
void conv_reorder_unpack(KILN_GLOBAL const packed_value *KILN_RESTRICT packed,
                         KILN_GLOBAL kiln_value *KILN_RESTRICT plain, kiln_u32 outers,
                         kiln_u32 slices, kiln_u32 slice_size)
{
    struct spot s, from;
    kiln_u32 chunk, item = pixel_of_item(PACKED_PIXEL / CHUNK, &chunk);
    s.w = item % KILN_W;
    item /= KILN_W;
    s.h = item % KILN_H;
    item /= KILN_H;
    s.d = item % KILN_D;
    s.outer = item / KILN_D;
    s.group = chunk * CHUNK / KILN_C_PACKED;
    s.c = chunk * CHUNK % KILN_C_PACKED;
    if (s.outer >= outers)
        return;
    from = s;
    from.outer = s.outer / KILN_OUTER * KILN_OUTER_PACKED + s.outer % KILN_OUTER;
    from.w += KILN_W_FIRST;
    packed_value v[CHUNK];
    get_chunk(packed + packed_at(&from), slices, slice_size, v);
    KILN_UNROLL
    for (int i = 0; i < CHUNK; i++, s.c++)
        if (s.c < KILN_C)
            PUT(plain, plain_at(&s), v[i]);
}

#else

/* Fills |outers| entries of the plain tensor, with RUN elements for each item.  If KILN_PARTIAL,
 * adds up |slices| slices of |slice_size| elements. */
KILN_KERNEL(KILN_GROUP_SIZE)
void conv_reorder_unpack(KILN_GLOBAL const packed_value *KILN_RESTRICT packed,
                         KILN_GLOBAL kiln_value *KILN_RESTRICT plain, kiln_u32 outers,
                         kiln_u32 slices, kiln_u32 slice_size)
{
    kiln_u32 item = (kiln_group() * KILN_GROUP_SIZE + kiln_item()) * RUN, to = item;
    struct spot s;
#if KILN_PLAIN_LAST
    s.c = item % CHANNELS;
    item /= CHANNELS;
#endif
    s.w = item % KILN_W;
    item /= KILN_W;
    s.h = item % KILN_H;
    item /= KILN_H;
    s.d = item % KILN_D;
    item /= KILN_D;
#if !KILN_PLAIN_LAST
    s.c = item % CHANNELS;
    item /= CHANNELS;
#endif
    s.group = s.c / KILN_C;
    s.c %= KILN_C;
    if (item >= outers)
        return;
    s.outer = item / KILN_OUTER * KILN_OUTER_PACKED + item % KILN_OUTER;
    s.w += KILN_W_FIRST;
    int has_it = 1;
#ifdef KILN_PATCH_W
    struct spot at;
    has_it = patch_of(&s, &at);
    s = at;
#endif
#if KILN_PARTIAL
    KILN_GLOBAL const float *from = packed + packed_at(&s);
    float sum[RUN] = { 0 };
    for (kiln_u32 i = 0; i < slices && has_it; i++, from += slice_size)
        for (int j = 0; j < RUN; j++)
            sum[j] += from[j];
    for (int j = 0; j < RUN; j++)
        kiln_store(plain, to + j, sum[j]);
#else
    bits v[RUN] = { 0 };
    if (has_it)
        get_run(packed + packed_at(&s), v);
    put_run((KILN_GLOBAL bits *)plain + to, v);
#endif
}

#endif
#endif
