/* SPDX-License-Identifier: MIT */
/*
 * Converts tensors of any size between the caller's layout ("plain") and the layout of
 * conv_generic_mma.cl ("packed"): channels last, padded with zeros to whole chunks of 16 bytes.
 *
 * A tensor has rows of pixels: images or, for weights, output channels, with taps as pixels.  Its
 * spots are the pixels of all rows:
 *
 *   packed  row, pixel, group, channel
 *   plain   the same order or, if KILN_LAST is 0, row, group, channel, pixel
 *
 * The rows of weights belong to groups.  Packed, each of these blocks has |rows_packed| rows, of
 * which |rows| are plain.  Other tensors have one block, without padding.
 *
 *   KILN_TYPE      type of the plain tensor and, if it is packed, of the packed one
 *   KILN_LAST      1 if plain's channels come last
 *   KILN_UNPACK    1: converts fp32 sums to a plain tensor.  0: converts a plain tensor
 */
#include "kiln/prelude.h"

#if KILN_TYPE == 0
typedef float bits; /* an element, which is copied without conversion */
#else
typedef unsigned short bits;
#endif

/* A work group converts CHANNELS channels of SPOTS spots through shared memory, so that both
 * tensors are accessed along their innermost axes. */
#define ITEMS 256
#define SPOTS 128
#define CHANNELS 32
#define PITCH (SPOTS + 1)
#define PASSES (SPOTS * CHANNELS / ITEMS)

struct tensor {
    kiln_u32 rows, rows_packed, pixels, groups, c, c_packed;
    kiln_u32 spots; /* of the packed tensor */
};

struct tile {
    kiln_u32 spot, group, channel; /* the first ones */
};

KILN_INLINE struct tile tile_of(const struct tensor *t, kiln_u32 id)
{
    kiln_u32 along = (t->c_packed + CHANNELS - 1) / CHANNELS;
    struct tile tile;
    tile.channel = id % along * CHANNELS;
    id /= along;
    tile.group = id % t->groups;
    tile.spot = id / t->groups * SPOTS;
    return tile;
}

/* The position in a tile of an item's element in pass |i|: along the spots... */
#define SPOT_ALONG_SPOTS(i) (kiln_item() % SPOTS)
#define CHANNEL_ALONG_SPOTS(i) (kiln_item() / SPOTS + (kiln_u32)(i) * (ITEMS / SPOTS))
/* ...and along the channels */
#define SPOT_ALONG_CHANNELS(i) (kiln_item() / CHANNELS + (kiln_u32)(i) * (ITEMS / CHANNELS))
#define CHANNEL_ALONG_CHANNELS(i) (kiln_item() % CHANNELS)

#if KILN_LAST
#define PLAIN_SPOT SPOT_ALONG_CHANNELS
#define PLAIN_CHANNEL CHANNEL_ALONG_CHANNELS
#define UNROLL_PLAIN _Pragma("unroll 4") /* each pass divides, so more would spill registers */
#else
#define PLAIN_SPOT SPOT_ALONG_SPOTS
#define PLAIN_CHANNEL CHANNEL_ALONG_SPOTS
#define UNROLL_PLAIN KILN_UNROLL
#endif

/* Returns whether the plain tensor has channel |c| of the tile's group at |spot|. */
KILN_INLINE int find_plain(const struct tensor *t, const struct tile *tile, kiln_u32 spot,
                           kiln_u32 c, kiln_u32 *ret_at)
{
    kiln_u32 row = spot / t->pixels, pixel = spot % t->pixels;
    kiln_u32 block = row / t->rows_packed, in_block = row % t->rows_packed;
    kiln_u32 channel = tile->group * t->c + c, channels = t->groups * t->c;
    row = block * t->rows + in_block;
    *ret_at = KILN_LAST ? (row * t->pixels + pixel) * channels + channel
                        : (row * channels + channel) * t->pixels + pixel;
    return spot < t->spots && in_block < t->rows && c < t->c;
}

KILN_INLINE kiln_u32 packed_at(const struct tensor *t, const struct tile *tile, kiln_u32 spot,
                               kiln_u32 c)
{
    return (spot * t->groups + tile->group) * t->c_packed + c;
}

#define TENSOR_PARAMETERS                                                               \
    kiln_u32 rows, kiln_u32 rows_packed, kiln_u32 pixels, kiln_u32 groups, kiln_u32 c, \
        kiln_u32 c_packed, kiln_u32 spots
#define TENSOR                                                      \
    {                                                               \
        rows, rows_packed, pixels, groups, c, c_packed, spots \
    }

#if !KILN_UNPACK

KILN_KERNEL(ITEMS)
void conv_generic_pack(KILN_GLOBAL const bits *KILN_RESTRICT plain,
                       KILN_GLOBAL bits *KILN_RESTRICT packed, TENSOR_PARAMETERS)
{
    KILN_SHARED bits square[CHANNELS * PITCH];
    const struct tensor t = TENSOR;
    const struct tile tile = tile_of(&t, kiln_group());
    UNROLL_PLAIN
    for (int i = 0; i < PASSES; i++) {
        kiln_u32 at, spot = PLAIN_SPOT(i), channel = PLAIN_CHANNEL(i);
        int is_there = find_plain(&t, &tile, tile.spot + spot, tile.channel + channel, &at);
        bits v = plain[is_there ? at : 0]; /* without a branch, so that reads overlap */
        square[channel * PITCH + spot] = is_there ? v : (bits)0;
    }
    kiln_barrier();
    KILN_UNROLL
    for (int i = 0; i < PASSES; i++) {
        kiln_u32 spot = SPOT_ALONG_CHANNELS(i), channel = CHANNEL_ALONG_CHANNELS(i);
        if (tile.spot + spot < spots && tile.channel + channel < c_packed)
            packed[packed_at(&t, &tile, tile.spot + spot, tile.channel + channel)] =
                square[channel * PITCH + spot];
    }
}

#else

KILN_KERNEL(ITEMS)
void conv_generic_unpack(KILN_GLOBAL const float *KILN_RESTRICT packed,
                         KILN_GLOBAL kiln_value *KILN_RESTRICT plain, TENSOR_PARAMETERS)
{
    KILN_SHARED float square[CHANNELS * PITCH];
    const struct tensor t = TENSOR;
    const struct tile tile = tile_of(&t, kiln_group());
    KILN_UNROLL
    for (int i = 0; i < PASSES; i++) {
        kiln_u32 spot = SPOT_ALONG_CHANNELS(i), channel = CHANNEL_ALONG_CHANNELS(i);
        int is_there = tile.spot + spot < spots && tile.channel + channel < c_packed;
        kiln_u32 at = packed_at(&t, &tile, tile.spot + spot, tile.channel + channel);
        square[channel * PITCH + spot] = packed[is_there ? at : 0];
    }
    kiln_barrier();
    UNROLL_PLAIN
    for (int i = 0; i < PASSES; i++) {
        kiln_u32 at, spot = PLAIN_SPOT(i), channel = PLAIN_CHANNEL(i);
        if (find_plain(&t, &tile, tile.spot + spot, tile.channel + channel, &at))
            kiln_store(plain, at, square[channel * PITCH + spot]);
    }
}

#endif
