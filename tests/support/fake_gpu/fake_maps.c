/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_gpu/fake_gpu_parts.h"

#if defined(FAKE_CUDA) && FAKE_CUDA >= 12

#define RANK_MAX 5

static void copy_numbers(struct fake_gpu_map *map, const uint64_t *dims, const uint64_t *strides,
                         const uint32_t *steps)
{
    for (uint32_t i = 0; i < map->rank; i++) {
        map->dims[i] = dims[i];
        map->steps[i] = steps[i];
        if (i > 0)
            map->strides[i - 1] = strides[i - 1];
    }
}

/* Fails if |ret| or the memory is misaligned, as CUDA does. Elements have two bytes. */
static int encode(struct encoded *ret, const struct fake_gpu_map *map)
{
    if ((uintptr_t)ret % _Alignof(struct encoded) || (uintptr_t)map->address % 16)
        return INVALID_VALUE;
    *ret = (struct encoded){ .address = map->address, .bytes = 2 };
    for (uint32_t i = 0; i < map->rank; i++)
        ret->bytes *= map->dims[i];
    pthread_mutex_lock(&fake_mutex);
    fake_control.encodes++;
    fake_control.last_map = *map;
    pthread_mutex_unlock(&fake_mutex);
    return 0;
}

PUBLIC int cuTensorMapEncodeTiled(struct encoded *ret, int type, uint32_t rank, void *address,
                                  const uint64_t *dims, const uint64_t *strides,
                                  const uint32_t *box, const uint32_t *steps, int interleave,
                                  int swizzle, int promotion, int fill);
int cuTensorMapEncodeTiled(struct encoded *ret, int type, uint32_t rank, void *address,
                           const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *steps, int interleave, int swizzle, int promotion,
                           int fill)
{
    FAIL_IF_REPORTED(cuTensorMapEncodeTiled);
    if (!fake_current())
        return INVALID_CONTEXT;
    struct fake_gpu_map map = { .type = type,
                                .rank = rank,
                                .address = address,
                                .interleave = interleave,
                                .swizzle = swizzle,
                                .promotion = promotion,
                                .fill = fill };
    if (rank < 1 || rank > RANK_MAX)
        return INVALID_VALUE;
    copy_numbers(&map, dims, strides, steps);
    memcpy(map.box, box, rank * sizeof(*box));
    return encode(ret, &map);
}

PUBLIC int cuTensorMapEncodeIm2col(struct encoded *ret, int type, uint32_t rank, void *address,
                                   const uint64_t *dims, const uint64_t *strides, const int *lower,
                                   const int *upper, uint32_t channels, uint32_t pixels,
                                   const uint32_t *steps, int interleave, int swizzle,
                                   int promotion, int fill);
int cuTensorMapEncodeIm2col(struct encoded *ret, int type, uint32_t rank, void *address,
                            const uint64_t *dims, const uint64_t *strides, const int *lower,
                            const int *upper, uint32_t channels, uint32_t pixels,
                            const uint32_t *steps, int interleave, int swizzle, int promotion,
                            int fill)
{
    FAIL_IF_REPORTED(cuTensorMapEncodeIm2col);
    if (!fake_current())
        return INVALID_CONTEXT;
    struct fake_gpu_map map = { .is_im2col = true,
                                .type = type,
                                .rank = rank,
                                .address = address,
                                .channels = channels,
                                .pixels = pixels,
                                .interleave = interleave,
                                .swizzle = swizzle,
                                .promotion = promotion,
                                .fill = fill };
    if (rank < 3 || rank > RANK_MAX)
        return INVALID_VALUE;
    copy_numbers(&map, dims, strides, steps);
    memcpy(map.lower, lower, (rank - 2) * sizeof(*lower));
    memcpy(map.upper, upper, (rank - 2) * sizeof(*upper));
    return encode(ret, &map);
}
#endif
