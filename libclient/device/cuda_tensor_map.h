/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Encodes tensor maps as CUtensorMap, the form that CUDA's copy hardware reads.
 *
 * Ownership  plain values
 * Threading  any thread with a current CUDA context, which the driver requires
 */
#include "common/protocol/tensor_map.h"

struct device_map; /* has the layout of CUtensorMap: 128 bytes, aligned to 64 */

/* cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col, which exist since CUDA 12. */
typedef int cuda_encode_tiled(struct device_map *map, int type, uint32_t rank, void *address,
                              const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                              const uint32_t *steps, int interleave, int swizzle, int promotion,
                              int fill);
typedef int cuda_encode_im2col(struct device_map *map, int type, uint32_t rank, void *address,
                               const uint64_t *dims, const uint64_t *strides, const int *lower,
                               const int *upper, uint32_t channels, uint32_t pixels,
                               const uint32_t *steps, int interleave, int swizzle, int promotion,
                               int fill);

/* Encodes |map| for |address|, which includes the map's offset.  Returns a CUresult, 0 on
 * success. */
int cuda_tensor_map_encode(cuda_encode_tiled *tiled, cuda_encode_im2col *im2col,
                           const struct tensor_map *map, void *address, struct device_map *ret_map);
