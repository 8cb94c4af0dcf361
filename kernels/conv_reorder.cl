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
 *   KILN_STEP_D, _H, _W            optional, with KILN_TOGETHER: only plain pixels at multiples of
 *                                  these numbers are packed.  Unpacking writes zeros to the others
 *   KILN_TOGETHER KILN_PIXELS      optional, powers of two: for tensors where plain neighbours are
 *                                  not packed neighbours.  A work group then converts this many
 *                                  chunks of this many pixels through shared memory.  A chunk is
 *                                  16 bytes of the packed tensor
 *   KILN_VECTOR                    with KILN_TOGETHER: number of plain neighbours that are pixels
 *                                  with consecutive numbers; an item copies them at once
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
/* Returns 0 if the patch has fewer elements. */
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
/* Returns 0 if |plain| belongs to no patch. */
KILN_DEVICE int patch_of(const struct spot *plain, struct spot *s)
{
    kiln_u32 row = plain->d % KILN_PATCH_D * KILN_PATCH_H + plain->h % KILN_PATCH_H;
    s->outer = plain->outer;
    s->d = plain->d / KILN_PATCH_D;
    s->h = plain->h / KILN_PATCH_H;
    s->w = plain->w / KILN_PATCH_W;
    s->group = 0;
    s->c =
        (row * KILN_PATCH_W + plain->w % KILN_PATCH_W) * KILN_PATCH_TAP + plain->c * KILN_PATCH_C;
    return s->d < KILN_PATCHES_D && s->h < KILN_PATCHES_H && s->w < KILN_PATCHES_W;
}
#endif

#ifdef KILN_TOGETHER

/*
 * A square of pixels and chunks in shared memory.  It consists of words of 32 bits, each of which
 * has one channel of a pixel, or two channels if their elements have two bytes.  The number of
 * words from one pixel to the next is odd, so that items access different banks, both along the
 * pixels and along the channels.
 */
#if KILN_TYPE == 0 || (defined(KILN_PARTIAL) && KILN_PARTIAL)
#define WORD_CHANNELS 1
#else
#define WORD_CHANNELS 2
#endif
#define WORDS (KILN_TOGETHER * 4) /* words of a pixel */
#define PITCH (WORDS + 1)
#define PIXEL_CHUNKS (PACKED_PIXEL / (4 * WORD_CHANNELS))
#define COLUMNS ((PIXEL_CHUNKS + KILN_TOGETHER - 1) / KILN_TOGETHER) /* squares of a pixel */
#ifndef KILN_STEP_W
#define KILN_STEP_D 1
#define KILN_STEP_H 1
#define KILN_STEP_W 1
#endif
#define PLACES_D ((KILN_D - 1) / KILN_STEP_D + 1) /* packed pixels along each axis */
#define PLACES_H ((KILN_H - 1) / KILN_STEP_H + 1)
#define PLACES (PLACES_D * PLACES_H * KILN_W_PACKED) /* packed pixels of an entry */
#define VECTORS (KILN_PIXELS / KILN_VECTOR)
#define PASS_WORDS (KILN_GROUP_SIZE / VECTORS)
#define PASSES ((WORDS + PASS_WORDS - 1) / PASS_WORDS)

KILN_DEVICE kiln_u32 first_pixel(void) { return kiln_group() / COLUMNS * KILN_PIXELS; }
KILN_DEVICE kiln_u32 first_chunk(void) { return kiln_group() % COLUMNS * KILN_TOGETHER; }

/* Returns 0 if plain has no such channel. */
KILN_INLINE int find_channel(struct spot *s, kiln_u32 number)
{
    s->group = number / KILN_C_PACKED;
    s->c = number % KILN_C_PACKED;
    return s->c < KILN_C && s->group < KILN_GROUPS;
}

KILN_INLINE void get_vector(KILN_GLOBAL const bits *from, bits *ret)
{
#if KILN_VECTOR == CHUNK
    kiln_float4 four = *(KILN_GLOBAL const kiln_float4 *)from;
#if KILN_TYPE == 0
    ret[0] = four.x;
    ret[1] = four.y;
    ret[2] = four.z;
    ret[3] = four.w;
#else
    kiln_u32 words[4] = { kiln_float_bits(four.x), kiln_float_bits(four.y), kiln_float_bits(four.z),
                          kiln_float_bits(four.w) };
    KILN_UNROLL
    for (int i = 0; i < CHUNK; i++)
        ret[i] = (bits)(words[i / 2] >> i % 2 * 16);
#endif
#elif KILN_VECTOR == 2
    kiln_u32 two = *(KILN_GLOBAL const kiln_u32 *)from;
    ret[0] = (bits)two;
    ret[1] = (bits)(two >> 16);
#else
    ret[0] = from[0];
#endif
}

KILN_INLINE void put_vector(KILN_GLOBAL bits *to, const bits *v)
{
#if KILN_VECTOR == CHUNK && KILN_TYPE == 0
    *(KILN_GLOBAL kiln_float4 *)to = kiln_make4(v[0], v[1], v[2], v[3]);
#elif KILN_VECTOR == CHUNK
    *(KILN_GLOBAL kiln_float4 *)to = kiln_make4(
        kiln_bits_float(v[0] | (kiln_u32)v[1] << 16), kiln_bits_float(v[2] | (kiln_u32)v[3] << 16),
        kiln_bits_float(v[4] | (kiln_u32)v[5] << 16), kiln_bits_float(v[6] | (kiln_u32)v[7] << 16));
#elif KILN_VECTOR == 2
    *(KILN_GLOBAL kiln_u32 *)to = v[0] | (kiln_u32)v[1] << 16;
#else
    to[0] = v[0];
#endif
}

#endif

#ifndef KILN_PARTIAL

#ifdef KILN_TOGETHER

/* Pixels are numbered so that neighbours are also neighbours in the plain tensor.  Returns 0 if
 * plain has no such pixel. */
KILN_DEVICE int find_pixel(struct spot *s, kiln_u32 number, kiln_u32 outers)
{
#ifdef KILN_TURNED /* plain's channels are packed's entries */
    kiln_u32 outer = number % outers;
    number /= outers;
#endif
    s->w = number % KILN_W_PACKED * KILN_STEP_W - KILN_W_FIRST; /* may wrap around */
    number /= KILN_W_PACKED;
    s->h = number % PLACES_H * KILN_STEP_H;
    number /= PLACES_H;
    s->d = number % PLACES_D * KILN_STEP_D;
    number /= PLACES_D;
#ifdef KILN_TURNED
    number = number ? outers : outer;
#endif
    kiln_u32 entry = number % KILN_OUTER_PACKED;
    s->outer = number / KILN_OUTER_PACKED * KILN_OUTER + entry;
    return number < outers && entry < KILN_OUTER && s->w < KILN_W;
}

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_reorder_pack(KILN_GLOBAL const bits *KILN_RESTRICT plain,
                       KILN_GLOBAL bits *KILN_RESTRICT packed, kiln_u32 outers)
{
    KILN_SHARED kiln_u32 square[KILN_PIXELS * PITCH];
    kiln_u32 vector = kiln_item() % VECTORS * KILN_VECTOR;
    struct spot s;
    int is_pixel = find_pixel(&s, first_pixel() + vector, outers);
    KILN_UNROLL
    for (int pass = 0; pass < PASSES; pass++) {
        kiln_u32 word = kiln_item() / VECTORS + pass * PASS_WORDS;
        bits v[WORD_CHANNELS][KILN_VECTOR];
        if (WORDS % PASS_WORDS && word >= WORDS)
            continue;
        for (int i = 0; i < WORD_CHANNELS; i++) {
            kiln_u32 channel = (first_chunk() * 4 + word) * WORD_CHANNELS + i;
            for (int j = 0; j < KILN_VECTOR; j++)
                v[i][j] = 0;
            if (find_channel(&s, channel) && is_pixel)
                get_vector(plain + plain_at(&s), v[i]);
        }
        for (int j = 0; j < KILN_VECTOR; j++)
#if KILN_TYPE == 0
            square[(vector + j) * PITCH + word] = kiln_float_bits(v[0][j]);
#else
            square[(vector + j) * PITCH + word] = v[0][j] | (kiln_u32)v[1][j] << 16;
#endif
    }
    kiln_barrier();
    for (kiln_u32 i = kiln_item(); i < KILN_PIXELS * KILN_TOGETHER; i += KILN_GROUP_SIZE) {
        kiln_u32 number = first_pixel() + i / KILN_TOGETHER;
        kiln_u32 chunk = first_chunk() + i % KILN_TOGETHER;
        kiln_u32 from = i / KILN_TOGETHER * PITCH + i % KILN_TOGETHER * 4;
        if (number >= outers * PLACES || chunk >= PIXEL_CHUNKS)
            continue;
#ifdef KILN_TURNED
        number = number % outers * PLACES + number / outers;
#endif
        *(KILN_GLOBAL kiln_float4 *)(packed + number * PACKED_PIXEL + chunk * CHUNK) =
            kiln_make4(kiln_bits_float(square[from]), kiln_bits_float(square[from + 1]),
                       kiln_bits_float(square[from + 2]), kiln_bits_float(square[from + 3]));
    }
}

#else

#define CHUNK_PIXELS (KILN_C_PACKED < CHUNK ? CHUNK / KILN_C_PACKED : 1)
#define ROW_CHUNKS (KILN_W_PACKED / CHUNK_PIXELS)
#define PIXEL_CHUNKS (KILN_C_PACKED < CHUNK ? 1 : PACKED_PIXEL / CHUNK)

/* Items are numbered so that neighbouring items read neighbours of the plain tensor. */
KILN_DEVICE struct spot chunk_at(void)
{
    struct spot s;
    kiln_u32 item = kiln_group() * KILN_GROUP_SIZE + kiln_item(), chunk = item % PIXEL_CHUNKS;
    item /= PIXEL_CHUNKS;
    s.w = item % ROW_CHUNKS * CHUNK_PIXELS;
    item /= ROW_CHUNKS;
    s.h = item % PACKED_H;
    item /= PACKED_H;
    s.d = item % PACKED_D;
    s.outer = item / PACKED_D;
    s.group = chunk * CHUNK / KILN_C_PACKED;
    s.c = chunk * CHUNK % KILN_C_PACKED;
    return s;
}

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_reorder_pack(KILN_GLOBAL const bits *KILN_RESTRICT plain,
                       KILN_GLOBAL bits *KILN_RESTRICT packed, kiln_u32 outers)
{
    struct spot s = chunk_at();
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

#endif

#else

#if KILN_PARTIAL
typedef float packed_value;
#else
typedef bits packed_value;
#endif

#ifdef KILN_TOGETHER

KILN_INLINE kiln_float4 get_chunk(KILN_GLOBAL const packed_value *from, kiln_u32 slices,
                                  kiln_u32 slice_size)
{
    kiln_float4 sum = *(KILN_GLOBAL const kiln_float4 *)from;
#if KILN_PARTIAL
    for (kiln_u32 i = 1; i < slices; i++) {
        from += slice_size;
        kiln_float4 four = *(KILN_GLOBAL const kiln_float4 *)from;
        sum.x += four.x;
        sum.y += four.y;
        sum.z += four.z;
        sum.w += four.w;
    }
#else
    (void)slices;
    (void)slice_size;
#endif
    return sum;
}

KILN_DEVICE int find_pixel(struct spot *s, kiln_u32 number, kiln_u32 outers)
{
    s->w = number % KILN_W;
    number /= KILN_W;
    s->h = number % KILN_H;
    number /= KILN_H;
    s->d = number % KILN_D;
    s->outer = number / KILN_D;
    return s->outer < outers;
}

KILN_DEVICE int is_packed(const struct spot *s)
{
    return s->w % KILN_STEP_W == 0 && s->h % KILN_STEP_H == 0 && s->d % KILN_STEP_D == 0;
}

KILN_DEVICE kiln_u32 packed_pixel(const struct spot *s)
{
    kiln_u32 outer = s->outer / KILN_OUTER * KILN_OUTER_PACKED + s->outer % KILN_OUTER;
    kiln_u32 row = (outer * PLACES_D + s->d / KILN_STEP_D) * PLACES_H + s->h / KILN_STEP_H;
    return row * KILN_W_PACKED + s->w / KILN_STEP_W + KILN_W_FIRST;
}

KILN_KERNEL(KILN_GROUP_SIZE)
void conv_reorder_unpack(KILN_GLOBAL const packed_value *KILN_RESTRICT packed,
                         KILN_GLOBAL kiln_value *KILN_RESTRICT plain, kiln_u32 outers,
                         kiln_u32 slices, kiln_u32 slice_size)
{
    KILN_SHARED kiln_u32 square[KILN_PIXELS * PITCH];
    struct spot s;
    for (kiln_u32 i = kiln_item(); i < KILN_PIXELS * KILN_TOGETHER; i += KILN_GROUP_SIZE) {
        kiln_u32 to = i / KILN_TOGETHER * PITCH + i % KILN_TOGETHER * 4;
        kiln_u32 chunk = first_chunk() + i % KILN_TOGETHER;
        if (!find_pixel(&s, first_pixel() + i / KILN_TOGETHER, outers) || chunk >= PIXEL_CHUNKS)
            continue;
        kiln_float4 four = kiln_make4(0, 0, 0, 0);
        if (is_packed(&s))
            four = get_chunk(packed + packed_pixel(&s) * PACKED_PIXEL + chunk * (4 * WORD_CHANNELS),
                             slices, slice_size);
        square[to] = kiln_float_bits(four.x);
        square[to + 1] = kiln_float_bits(four.y);
        square[to + 2] = kiln_float_bits(four.z);
        square[to + 3] = kiln_float_bits(four.w);
    }
    kiln_barrier();
    kiln_u32 vector = kiln_item() % VECTORS * KILN_VECTOR;
    if (!find_pixel(&s, first_pixel() + vector, outers))
        return;
    KILN_UNROLL
    for (int pass = 0; pass < PASSES; pass++) {
        kiln_u32 word = kiln_item() / VECTORS + pass * PASS_WORDS;
        kiln_u32 channel = (first_chunk() * 4 + word) * WORD_CHANNELS;
        if (WORDS % PASS_WORDS && word >= WORDS)
            continue;
        for (int i = 0; i < WORD_CHANNELS; i++) {
            if (!find_channel(&s, channel + i))
                continue;
#if KILN_PARTIAL
            kiln_store(plain, plain_at(&s), kiln_bits_float(square[vector * PITCH + word]));
#else
            bits v[KILN_VECTOR];
            for (int j = 0; j < KILN_VECTOR; j++) {
#if KILN_TYPE == 0
                v[j] = kiln_bits_float(square[(vector + j) * PITCH + word]);
#else
                v[j] = (bits)(square[(vector + j) * PITCH + word] >> i * 16);
#endif
            }
            put_vector((KILN_GLOBAL bits *)plain + plain_at(&s), v);
#endif
        }
    }
}

#else

/* An item fills RUN elements.  If KILN_PARTIAL, adds up |slices| slices of |slice_size|
 * elements. */
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
