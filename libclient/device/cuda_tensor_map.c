/* SPDX-License-Identifier: MIT */
#include "libclient/device/cuda_tensor_map.h"

#include "common/protocol/problem.h"

/* Values of CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapL2promotion and
 * CUtensorMapFloatOOBfill. */
#define TYPE_IS_FLOAT16 6
#define TYPE_IS_FLOAT32 7
#define TYPE_IS_BFLOAT16 9
#define TYPE_IS_TFLOAT32 11
#define INTERLEAVE_NONE 0
#define PROMOTE_TO_128_BYTES 2
#define FILL_WITH_ZEROS 0

static int type_of(const struct tensor_map *map)
{
    switch (map->type) {
    case TYPE_FLOAT32: return TYPE_IS_FLOAT32;
    case TENSOR_MAP_TF32: return TYPE_IS_TFLOAT32;
    case TYPE_BFLOAT16: return TYPE_IS_BFLOAT16;
    default: return TYPE_IS_FLOAT16;
    }
}

int cuda_tensor_map_encode(cuda_encode_tiled *tiled, cuda_encode_im2col *im2col,
                           const struct tensor_map *map, void *address, struct device_map *ret_map)
{
    int type = type_of(map);
    int swizzle = map->swizzle; /* CUtensorMapSwizzle has the same values */
    uint64_t dims[TENSOR_MAP_DIMS_MAX];
    for (uint32_t i = 0; i < map->rank; i++)
        dims[i] = map->dims[i];
    if (map->mode == TENSOR_MAP_TILED)
        return tiled(ret_map, type, map->rank, address, dims, map->strides + 1, map->box,
                     map->steps, INTERLEAVE_NONE, swizzle, PROMOTE_TO_128_BYTES, FILL_WITH_ZEROS);
    return im2col(ret_map, type, map->rank, address, dims, map->strides + 1, map->lower, map->upper,
                  map->channels, map->pixels, map->steps, INTERLEAVE_NONE, swizzle,
                  PROMOTE_TO_128_BYTES, FILL_WITH_ZEROS);
}
