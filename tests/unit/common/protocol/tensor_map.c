/* SPDX-License-Identifier: MIT */
#include "common/protocol/tensor_map.h"

#include "common/protocol/messages.h"
#include "common/protocol/problem.h"
#include "tests/support/test.h"

#include <string.h>

/* Boxes of 64 channels x 128 pixels in a matrix of 1000 x 3000. */
static struct tensor_map tiled_map(void)
{
    return (struct tensor_map){ .operand = ARGUMENT_X,
                                .type = TYPE_FLOAT16,
                                .mode = TENSOR_MAP_TILED,
                                .swizzle = TENSOR_MAP_SWIZZLE_128,
                                .rank = 2,
                                .dims = { 1000, 3000 },
                                .strides = { 2, 2000 },
                                .steps = { 1, 1 },
                                .box = { 64, 128 } };
}

/* A 3x3 filter over two images of 20 x 30 pixels with 72 channels. */
static struct tensor_map im2col(void)
{
    return (struct tensor_map){ .operand = ARGUMENT_WORKSPACE,
                                .type = TYPE_BFLOAT16,
                                .mode = TENSOR_MAP_IM2COL,
                                .swizzle = TENSOR_MAP_SWIZZLE_128,
                                .rank = 4,
                                .offset = 256,
                                .dims = { 72, 30, 20, 2 },
                                .strides = { 2, 144, 4320, 86400 },
                                .steps = { 1, 2, 2, 1 },
                                .lower = { -1, -1 },
                                .upper = { -1, -1 },
                                .channels = 64,
                                .pixels = 128 };
}

/* Each element has four bytes instead of two, so a row of the box has half as many elements. */
static struct tensor_map of_wide_elements(uint8_t type)
{
    struct tensor_map map = tiled_map();
    map.type = type;
    map.strides[0] = 4;
    map.strides[1] = 4000;
    map.box[0] = 32;
    return map;
}

TEST(plain, a_tensor_map_is_read_back_from_its_wire_form)
{
    const struct tensor_map maps[] = { tiled_map(), im2col() };
    for (size_t i = 0; i < 2; i++) {
        BUFFER_AUTO struct buffer b;
        buffer_init(&b, 1000);
        tensor_map_write(&b, &maps[i]);
        assert_int_equal(b.size, TENSOR_MAP_WIRE_SIZE);
        struct reader r = reader_of(buffer_view(&b));
        const struct tensor_map read = tensor_map_read(&r);
        assert_false(r.failed);
        assert_ptr_equal(r.at, r.end);
        assert_memory_equal(&read, &maps[i], sizeof(read));
        for (size_t size = 0; size < b.size; size++) {
            r = reader_of(bytes_of(b.data, size));
            (void)tensor_map_read(&r);
            assert_true(r.failed);
        }
    }
}

TEST(plain, tensor_maps_that_the_hardware_accepts_are_valid)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct tensor_map map = tiled_map();
    must(tensor_map_check(&map, &err), err);
    map.box[1] = 256;
    map.swizzle = TENSOR_MAP_SWIZZLE_NONE;
    map.box[0] = 256;
    must(tensor_map_check(&map, &err), err);
    map.strides[1] = (1ull << 40) - 16;
    must(tensor_map_check(&map, &err), err);
    map = im2col();
    must(tensor_map_check(&map, &err), err);
    map.lower[0] = map.upper[0] = -128;
    map.lower[1] = map.upper[1] = 127;
    map.steps[1] = 8;
    map.pixels = 1024;
    must(tensor_map_check(&map, &err), err);
    map = im2col();
    map.rank = 5; /* with five dimensions, an offset of a corner has only five bits */
    map.dims[4] = map.steps[4] = 1;
    map.strides[4] = 16;
    map.lower[2] = -16;
    map.upper[2] = 15;
    map.lower[0] = map.lower[1] = map.upper[0] = map.upper[1] = 0;
    must(tensor_map_check(&map, &err), err);
}

TEST(plain, tensor_maps_of_fp32_and_tf32_have_elements_of_four_bytes)
{
    static const uint8_t types[] = { TYPE_FLOAT32, TENSOR_MAP_TF32 };
    struct kiln_err err = KILN_ERR_INIT;
    for (size_t i = 0; i < sizeof(types); i++) {
        struct tensor_map map = of_wide_elements(types[i]);
        must(tensor_map_check(&map, &err), err);
        assert_int_equal(tensor_map_reach(&map), 1000 * 3000 * 4);
        map.strides[0] = 2;
        assert_int_equal(tensor_map_check(&map, &err), KILN_INVALID);
        map = of_wide_elements(types[i]);
        map.box[0] = 64; /* a row has 256 bytes, but may have at most 128 with this swizzle */
        assert_int_equal(tensor_map_check(&map, &err), KILN_INVALID);
    }
}

static void expect_refused(const struct tensor_map *map, const char *words)
{
    struct kiln_err err = KILN_ERR_INIT;
    assert_int_equal(tensor_map_check(map, &err), KILN_INVALID);
    assert_says(err.text, words);
}

#define BREAK(field, value, words)   \
    do {                             \
        map = good;                  \
        map.field = (value);         \
        expect_refused(&map, words); \
    } while (0)

TEST(plain, a_tensor_map_with_a_field_out_of_range_is_refused)
{
    struct tensor_map map;
    for (unsigned i = 0; i < 2; i++) {
        const struct tensor_map good = i ? im2col() : tiled_map();
        BREAK(operand, ARGUMENT_U32, "operand 4");
        BREAK(operand, 255, "operand 255");
        BREAK(type, TYPE_FLOAT32, "stride of dimension 0");
        BREAK(type, TYPE_INT8, "type 3");
        BREAK(type, TENSOR_MAP_TF32 + 1, "type 5");
        BREAK(type, 255, "type 255");
        BREAK(mode, TENSOR_MAP_IM2COL + 1, "mode 2");
        BREAK(swizzle, TENSOR_MAP_SWIZZLE_128 + 1, "swizzle 4");
        BREAK(rank, 0, "0 dimensions");
        BREAK(rank, 6, "6 dimensions");
        BREAK(rank, UINT32_MAX, "4294967295 dimensions");
        BREAK(offset, 8, "byte 8");
        BREAK(dims[0], 0, "size of dimension 0");
        BREAK(dims[1], 0, "size of dimension 1");
        BREAK(strides[0], 4, "stride of dimension 0");
        BREAK(strides[1], 0, "stride of dimension 1");
        BREAK(strides[1], 2004, "not a multiple");
        BREAK(strides[1], 1ull << 40, "stride of dimension 1");
        BREAK(strides[1], UINT64_MAX - 15, "stride of dimension 1");
        BREAK(steps[0], 0, "step in dimension 0");
        BREAK(steps[1], 9, "step in dimension 1 is 9");
        BREAK(dims[4], 1, "dimension 4");
        BREAK(strides[4], 16, "dimension 4");
        BREAK(steps[4], 1, "dimension 4");
        BREAK(box[4], 1, "dimension 4");
    }
}

TEST(plain, an_invalid_box_of_a_tiled_tensor_map_is_refused)
{
    const struct tensor_map good = tiled_map();
    struct tensor_map map;
    BREAK(box[0], 0, "box in dimension 0");
    BREAK(box[0], 60, "elements in a row");
    /* The row would have 256 bytes, but may have at most 128 with this swizzle. */
    BREAK(box[0], 128, "elements in a row");
    BREAK(swizzle, TENSOR_MAP_SWIZZLE_64, "elements in a row");
    BREAK(box[1], 257, "box in dimension 1 is 257");
    BREAK(box[1], UINT32_MAX, "box in dimension 1");
    BREAK(lower[0], 1, "tiled");
    BREAK(upper[2], -1, "tiled");
    BREAK(channels, 64, "tiled");
    BREAK(pixels, 1, "tiled");
}

TEST(plain, an_invalid_pixel_range_of_an_im2col_tensor_map_is_refused)
{
    const struct tensor_map good = im2col();
    struct tensor_map map;
    BREAK(box[0], 64, "im2col");
    BREAK(lower[0], -129, "corner of spatial dimension 0 is -129");
    BREAK(lower[1], 128, "corner of spatial dimension 1");
    BREAK(upper[0], 128, "corner of spatial dimension 0");
    BREAK(upper[1], INT32_MIN, "corner of spatial dimension 1");
    BREAK(lower[2], -1, "corner of spatial dimension 2");
    BREAK(upper[2], 1, "corner of spatial dimension 2");
    BREAK(upper[0], -31, "dimension 0");
    BREAK(lower[1], 19, "dimension 1");
    BREAK(channels, 0, "0 channels");
    BREAK(channels, 257, "257 channels");
    BREAK(channels, 60, "elements in a row");
    BREAK(channels, 72, "elements in a row");
    BREAK(pixels, 0, "0 pixels");
    BREAK(pixels, 1025, "1025 pixels");
    map = tiled_map();
    map.mode = TENSOR_MAP_IM2COL;
    expect_refused(&map, "2 dimensions");
}

TEST(plain, the_reach_of_a_tensor_map_ends_with_its_last_element)
{
    struct tensor_map map = tiled_map();
    assert_int_equal(tensor_map_reach(&map), 1000 * 3000 * 2);
    map.strides[1] = 4000; /* the last row is shorter than the stride */
    assert_int_equal(tensor_map_reach(&map), 2999 * 4000 + 2000);
    map = im2col();
    assert_int_equal(tensor_map_reach(&map), 256 + 2 * 20 * 30 * 72 * 2);
    map.offset = UINT64_MAX - 15;
    assert_true(tensor_map_reach(&map) == UINT64_MAX);
    map = im2col();
    for (unsigned i = 0; i < 4; i++)
        map.dims[i] = UINT32_MAX;
    map.strides[1] = map.strides[2] = map.strides[3] = (1ull << 40) - 16;
    assert_true(tensor_map_reach(&map) == UINT64_MAX);
}
