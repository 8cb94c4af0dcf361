/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tensor maps: how the copy hardware of a GPU (NVIDIA's TMA) reads a tensor.
 *
 * Role       The daemon plans a map without an address; libkiln encodes it for a launch
 * Ownership  plain values
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#define TENSOR_MAP_DIMS_MAX 5u
#define TENSOR_MAP_SPATIAL_MAX 3u
#define TENSOR_MAP_WIRE_SIZE \
    (4u + 4u + 8u + TENSOR_MAP_DIMS_MAX * 20u + TENSOR_MAP_SPATIAL_MAX * 8u + 8u)

/* A value of |type| that enum data_type lacks: fp32 elements that the copy to shared memory rounds
 * to TF32. */
#define TENSOR_MAP_TF32 4u

enum tensor_map_mode {
    TENSOR_MAP_TILED, /* a copy transfers a box, which has a size in each dimension */
    /* A copy transfers some channels of consecutive pixels.  After the last pixel of an image, it
     * continues with the next image. */
    TENSOR_MAP_IM2COL,
};

enum tensor_map_swizzle {
    TENSOR_MAP_SWIZZLE_NONE,
    TENSOR_MAP_SWIZZLE_32,
    TENSOR_MAP_SWIZZLE_64,
    TENSOR_MAP_SWIZZLE_128,
};

/* Dimensions are numbered from the innermost: an image has c, w, h, n. */
struct tensor_map {
    uint8_t operand; /* enum argument_kind: ARGUMENT_X to ARGUMENT_WORKSPACE */
    uint8_t type;    /* enum data_type, or TENSOR_MAP_TF32; 2 or 4 bytes per element */
    uint8_t mode;
    uint8_t swizzle;
    uint32_t rank;
    uint64_t offset; /* in bytes, from the beginning of the operand */
    uint32_t dims[TENSOR_MAP_DIMS_MAX];
    uint64_t strides[TENSOR_MAP_DIMS_MAX]; /* in bytes; strides[0] is the size of an element */
    uint32_t steps[TENSOR_MAP_DIMS_MAX];   /* distance between copied elements, in elements */
    uint32_t box[TENSOR_MAP_DIMS_MAX];     /* for tiled maps: elements per copy in each dimension */
    /* For im2col maps: the two corners of the box of pixels, w first, relative to the corners of
     * the image; and the number of channels and of pixels per copy. */
    int32_t lower[TENSOR_MAP_SPATIAL_MAX], upper[TENSOR_MAP_SPATIAL_MAX];
    uint32_t channels, pixels;
};

/* Unused array members, and members that the mode does not use, must be zero. */
void tensor_map_write(struct buffer *b, const struct tensor_map *map);
/* Accepts any bits, so call tensor_map_check on the result. */
struct tensor_map tensor_map_read(struct reader *r);
/* Checks a map.  The message of KILN_INVALID names the value that the copy hardware or kiln does
 * not support. */
KILN_MUST_CHECK enum kiln_code tensor_map_check(const struct tensor_map *map, struct kiln_err *err);
/* Returns how many bytes of the operand the copies may read; UINT64_MAX on overflow.  The map must
 * have been checked. */
uint64_t tensor_map_reach(const struct tensor_map *map);
