/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tensor maps: how the copy hardware of a GPU (NVIDIA's TMA) shall see a tensor.
 *
 * Role       the daemon plans them, without an address; libkiln encodes them for the address of a
 *            launch.  Both check them with the same rules, which are CUDA's and ours
 * Ownership  plain values
 * Threading  pure functions
 */
#include "common/bytes.h"
#include "common/err.h"

#define TENSOR_MAP_DIMS_MAX 5u
#define TENSOR_MAP_SPATIAL_MAX 3u
/* Bytes on the wire: four u8, rank, offset; dims, stride, step, box of each dimension; corners of
 * each spatial one; channels, pixels. */
#define TENSOR_MAP_WIRE_SIZE \
    (4u + 4u + 8u + TENSOR_MAP_DIMS_MAX * 20u + TENSOR_MAP_SPATIAL_MAX * 8u + 8u)

enum tensor_map_mode {
    TENSOR_MAP_TILED,  /* a box of each dimension */
    TENSOR_MAP_IM2COL, /* channels of a row of pixels, image after image */
};

enum tensor_map_swizzle { /* how 16-byte chunks of a row are exchanged in shared memory */
                          TENSOR_MAP_SWIZZLE_NONE,
                          TENSOR_MAP_SWIZZLE_32,
                          TENSOR_MAP_SWIZZLE_64,
                          TENSOR_MAP_SWIZZLE_128, /* bytes of a row */
};

/* Dimensions are numbered from the innermost on: an image's are c, w, h, n. */
struct tensor_map {
    uint8_t operand; /* enum argument_kind: ARGUMENT_X to ARGUMENT_WORKSPACE */
    uint8_t type;    /* enum data_type; 2 bytes an element */
    uint8_t mode;    /* enum tensor_map_mode */
    uint8_t swizzle; /* enum tensor_map_swizzle */
    uint32_t rank;
    uint64_t offset; /* in bytes, from the operand's beginning */
    uint32_t dims[TENSOR_MAP_DIMS_MAX];
    uint64_t strides[TENSOR_MAP_DIMS_MAX]; /* in bytes; [0] is the element's size */
    uint32_t steps[TENSOR_MAP_DIMS_MAX];   /* from an element that is copied to the next */
    uint32_t box[TENSOR_MAP_DIMS_MAX];     /* tiled: elements of a copy */
    /* im2col: corners of the box of pixels, w first, from those of the image; a copy's channels and
     * pixels */
    int32_t lower[TENSOR_MAP_SPATIAL_MAX], upper[TENSOR_MAP_SPATIAL_MAX];
    uint32_t channels, pixels;
};

/* What is not used of the arrays, or by the mode, is zero. */
void tensor_map_write(struct buffer *b, const struct tensor_map *map);
/* Any bits: check it. */
struct tensor_map tensor_map_read(struct reader *r);
/* KILN_INVALID names what no copy hardware, or none of ours, takes. */
KILN_MUST_CHECK enum kiln_code tensor_map_check(const struct tensor_map *map, struct kiln_err *err);
/* Of a map that was checked: bytes of the operand, from its beginning, that copies may read;
 * UINT64_MAX where they do not fit. */
uint64_t tensor_map_reach(const struct tensor_map *map);
