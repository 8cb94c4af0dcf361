/* SPDX-License-Identifier: MIT */
#include "common/protocol/tensor_map.h"

#include "common/protocol/messages.h"
#include "common/protocol/problem.h"

#include <string.h>

/* The CUDA driver documents these bounds for cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col. */
#define ALIGNMENT 16u
#define STRIDE_BELOW (1ull << 40)
#define STEP_MAX 8u
#define BOX_MAX 256u
#define CHANNELS_MAX 256u
#define PIXELS_MAX 1024u
#define IM2COL_RANK_MIN 3u

void tensor_map_write(struct buffer *b, const struct tensor_map *map)
{
    buffer_put_u8(b, map->operand);
    buffer_put_u8(b, map->type);
    buffer_put_u8(b, map->mode);
    buffer_put_u8(b, map->swizzle);
    buffer_put_u32(b, map->rank);
    buffer_put_u64(b, map->offset);
    for (uint32_t i = 0; i < TENSOR_MAP_DIMS_MAX; i++) {
        buffer_put_u32(b, map->dims[i]);
        buffer_put_u64(b, map->strides[i]);
        buffer_put_u32(b, map->steps[i]);
        buffer_put_u32(b, map->box[i]);
    }
    for (uint32_t i = 0; i < TENSOR_MAP_SPATIAL_MAX; i++) {
        buffer_put_u32(b, (uint32_t)map->lower[i]);
        buffer_put_u32(b, (uint32_t)map->upper[i]);
    }
    buffer_put_u32(b, map->channels);
    buffer_put_u32(b, map->pixels);
}

struct tensor_map tensor_map_read(struct reader *r)
{
    struct tensor_map map = { .operand = reader_u8(r) };
    map.type = reader_u8(r);
    map.mode = reader_u8(r);
    map.swizzle = reader_u8(r);
    map.rank = reader_u32(r);
    map.offset = reader_u64(r);
    for (uint32_t i = 0; i < TENSOR_MAP_DIMS_MAX; i++) {
        map.dims[i] = reader_u32(r);
        map.strides[i] = reader_u64(r);
        map.steps[i] = reader_u32(r);
        map.box[i] = reader_u32(r);
    }
    for (uint32_t i = 0; i < TENSOR_MAP_SPATIAL_MAX; i++) {
        map.lower[i] = (int32_t)reader_u32(r);
        map.upper[i] = (int32_t)reader_u32(r);
    }
    map.channels = reader_u32(r);
    map.pixels = reader_u32(r);
    return map;
}

static uint32_t element_of(const struct tensor_map *m)
{
    switch (m->type) {
    case TYPE_FLOAT32:
    case TENSOR_MAP_TF32: return 4;
    case TYPE_FLOAT16:
    case TYPE_BFLOAT16: return 2;
    default: return 0;
    }
}

static enum kiln_code refuse_map(struct kiln_err *err, const char *what, uint32_t index,
                                 int64_t value, const char *rule)
{
    return kiln_fail(err, KILN_INVALID, "invalid tensor map: the %s %u is %lld, not %s", what,
                     index, (long long)value, rule);
}

static bool is_within(uint64_t value, uint64_t least, uint64_t most)
{
    return value >= least && value <= most;
}

static enum kiln_code check_dims(const struct tensor_map *m, struct kiln_err *err)
{
    for (uint32_t i = 0; i < m->rank; i++) {
        uint64_t stride = m->strides[i];
        bool is_stride = i == 0 ? stride == element_of(m)
                                : stride > 0 && stride % ALIGNMENT == 0 && stride < STRIDE_BELOW;
        if (m->dims[i] == 0)
            return refuse_map(err, "size of dimension", i, 0, "positive");
        if (!is_stride)
            return refuse_map(err, "stride of dimension", i, (int64_t)stride,
                              i == 0 ? "the size of an element" : "a multiple of 16 below 2^40");
        if (!is_within(m->steps[i], 1, STEP_MAX))
            return refuse_map(err, "step in dimension", i, m->steps[i], "1 to 8");
    }
    for (uint32_t i = m->rank; i < TENSOR_MAP_DIMS_MAX; i++)
        if (m->dims[i] || m->strides[i] || m->steps[i] || m->box[i])
            return kiln_fail(err, KILN_INVALID,
                             "invalid tensor map: dimension %u has values, and the map has %u "
                             "dimensions",
                             i, m->rank);
    return KILN_OK;
}

static enum kiln_code check_row(const struct tensor_map *m, uint32_t row, struct kiln_err *err)
{
    static const uint32_t swizzled[] = { 0, 32, 64, 128 };
    uint32_t bytes = row * element_of(m), most = swizzled[m->swizzle];
    return bytes % ALIGNMENT || (most && bytes > most)
               ? refuse_map(err, "number of elements in a row with swizzle", m->swizzle, row,
                            "a multiple of 16 bytes within the swizzle's span")
               : KILN_OK;
}

static enum kiln_code check_tiled(const struct tensor_map *m, struct kiln_err *err)
{
    static const int32_t none[TENSOR_MAP_SPATIAL_MAX] = { 0 };
    for (uint32_t i = 0; i < m->rank; i++)
        if (!is_within(m->box[i], 1, BOX_MAX))
            return refuse_map(err, "box in dimension", i, m->box[i], "1 to 256");
    if (memcmp(m->lower, none, sizeof(none)) != 0 || memcmp(m->upper, none, sizeof(none)) != 0 ||
        m->channels || m->pixels)
        return kiln_fail(err, KILN_INVALID,
                         "invalid tensor map: a tiled map has no corners, channels and pixels");
    return check_row(m, m->box[0], err);
}

static enum kiln_code check_corner(const struct tensor_map *m, uint32_t i, struct kiln_err *err)
{
    static const int32_t beyond[] = { 1 << 15, 1 << 7, 1 << 4 };
    int32_t lower = m->lower[i], upper = m->upper[i], end = 0;
    if (i < m->rank - 2)
        end = beyond[m->rank - IM2COL_RANK_MIN];
    if (lower < -end || upper < -end || (end ? lower >= end || upper >= end : lower || upper))
        return refuse_map(err, "corner of spatial dimension", i, lower < -end ? lower : upper,
                          "within the range of a map of this rank");
    if (end && (int64_t)m->dims[1 + i] + upper - lower <= 0)
        return refuse_map(err, "lower corner of spatial dimension", i, lower,
                          "below the upper corner: the box is empty");
    return KILN_OK;
}

static enum kiln_code check_im2col(const struct tensor_map *m, struct kiln_err *err)
{
    if (m->rank < IM2COL_RANK_MIN)
        return kiln_fail(err, KILN_INVALID,
                         "invalid tensor map: an im2col map has %u dimensions, not 3 to 5",
                         m->rank);
    for (uint32_t i = 0; i < TENSOR_MAP_DIMS_MAX; i++)
        if (m->box[i])
            return refuse_map(err, "box of an im2col map in dimension", i, m->box[i], "0");
    for (uint32_t i = 0; i < TENSOR_MAP_SPATIAL_MAX; i++)
        if (check_corner(m, i, err))
            return err->code;
    if (!is_within(m->channels, 1, CHANNELS_MAX) || !is_within(m->pixels, 1, PIXELS_MAX))
        return kiln_fail(err, KILN_INVALID,
                         "invalid tensor map: it has %u channels, not 1 to %u, or %u pixels, not 1 "
                         "to %u",
                         m->channels, CHANNELS_MAX, m->pixels, PIXELS_MAX);
    return check_row(m, m->channels, err);
}

enum kiln_code tensor_map_check(const struct tensor_map *m, struct kiln_err *err)
{
    if (m->operand > ARGUMENT_WORKSPACE)
        return kiln_fail(err, KILN_INVALID, "invalid tensor map: operand %u is unknown",
                         m->operand);
    if (element_of(m) == 0)
        return kiln_fail(err, KILN_INVALID,
                         "invalid tensor map: type %u is not fp32, fp16, bf16 or TF32", m->type);
    if (m->mode > TENSOR_MAP_IM2COL || m->swizzle > TENSOR_MAP_SWIZZLE_128)
        return kiln_fail(err, KILN_INVALID, "invalid tensor map: mode %u or swizzle %u is unknown",
                         m->mode, m->swizzle);
    if (!is_within(m->rank, 1, TENSOR_MAP_DIMS_MAX))
        return kiln_fail(err, KILN_INVALID, "invalid tensor map: it has %u dimensions, not 1 to %d",
                         m->rank, TENSOR_MAP_DIMS_MAX);
    if (m->offset % ALIGNMENT)
        return kiln_fail(err, KILN_INVALID,
                         "invalid tensor map: it begins at byte %llu, not at a multiple of %u",
                         (unsigned long long)m->offset, ALIGNMENT);
    enum kiln_code rc = check_dims(m, err);
    if (!rc)
        rc = m->mode == TENSOR_MAP_TILED ? check_tiled(m, err) : check_im2col(m, err);
    return rc;
}

/* Checks every product for overflow: a stride has up to 40 bits, a size 32. */
uint64_t tensor_map_reach(const struct tensor_map *m)
{
    uint64_t reach = 0;
    bool fits = !__builtin_add_overflow(m->offset, element_of(m), &reach);
    for (uint32_t i = 0; fits && i < m->rank; i++) {
        uint64_t last = 0;
        fits = !__builtin_mul_overflow((uint64_t)m->dims[i] - 1, m->strides[i], &last) &&
               !__builtin_add_overflow(reach, last, &reach);
    }
    return fits ? reach : UINT64_MAX;
}
