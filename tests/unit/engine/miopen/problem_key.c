/* SPDX-License-Identifier: MIT */
#include "engine/miopen/problem_key.h"

#include "common/base/random.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kiln_code key_parse(struct bytes text, struct problem *ret_problem,
                                 struct kiln_err *err);
typedef size_t key_write(const struct problem *p, char text[PROBLEM_KEY_MAX]);

static struct problem parsed(key_parse *reader, const char *key)
{
    struct problem p;
    struct kiln_err err = KILN_ERR_INIT;
    must(reader(bytes_of_text(key), &p, &err), err);
    must(problem_check(&p, &err), err);
    return p;
}

/* Parses the key and writes it again, which must give the same text. */
static struct problem survives(key_parse *reader, key_write *writer, const char *key)
{
    char text[PROBLEM_KEY_MAX];
    struct problem p = parsed(reader, key);
    assert_int_equal(writer(&p, text), strlen(key));
    assert_string_equal(text, key);
    return p;
}

static void refused(key_parse *reader, const char *key, enum kiln_code code, const char *says)
{
    struct problem p = { .n = 77 };
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = reader(bytes_of_text(key), &p, &err);
    if (rc != code)
        fail_msg("'%s': code %d, '%s'", key, (int)rc, err.text);
    assert_says(err.text, says);
    assert_int_equal(p.n, 77);
}

TEST(plain, a_forward_find_key_is_parsed)
{
    struct problem p = survives(find_key_parse, find_key_write,
                                "64-56-28-3x5-128-28-24-32-1x2-2x1-1x2-0-NCHW-FP32-F");
    assert_int_equal(p.direction, DIRECTION_FORWARD);
    assert_int_equal(p.spatial_dims, 2);
    assert_int_equal(p.c, 64);
    assert_int_equal(p.k, 128);
    assert_int_equal(p.n, 32);
    assert_int_equal(p.groups, 1);
    assert_memory_equal(&p.in, (&(struct extent){ 1, 56, 28 }), sizeof(p.in));
    assert_memory_equal(&p.filter, (&(struct extent){ 1, 3, 5 }), sizeof(p.in));
    assert_memory_equal(&p.pad, (&(struct extent){ 0, 1, 2 }), sizeof(p.in));
    assert_memory_equal(&p.stride, (&(struct extent){ 1, 2, 1 }), sizeof(p.in));
    assert_memory_equal(&p.dilation, (&(struct extent){ 1, 1, 2 }), sizeof(p.in));
}

TEST(plain, backward_find_keys_have_their_tensors_exchanged)
{
    struct problem p = survives(find_key_parse, find_key_write,
                                "128-28-27-3x3-64-58-56-32-0x0-2x2-1x1-0-NCHW-FP16-B");
    assert_int_equal(p.direction, DIRECTION_BACKWARD_DATA);
    assert_int_equal(p.c, 64);
    assert_int_equal(p.k, 128);
    assert_int_equal(p.in.h, 58);
    assert_int_equal(p.in.w, 56);

    p = survives(find_key_parse, find_key_write,
                 "128-28-27-3x3-64-57-55-32-0x0-2x2-1x1-0-NCHW-BF16-W_g4");
    assert_int_equal(p.direction, DIRECTION_BACKWARD_WEIGHTS);
    assert_int_equal(p.in.h, 57);
    assert_int_equal(p.groups, 4);
}

TEST(plain, three_dimensions_put_the_depths_first)
{
    struct problem p =
        survives(find_key_parse, find_key_write,
                 "32-8-14-15-3x1x2-16-4-14-14-2-1x0x0-2x1x1-1x1x1-0-NCDHW-FP32-F_g2");
    assert_int_equal(p.spatial_dims, 3);
    assert_memory_equal(&p.in, (&(struct extent){ 8, 14, 15 }), sizeof(p.in));
    assert_memory_equal(&p.filter, (&(struct extent){ 3, 1, 2 }), sizeof(p.in));
    assert_memory_equal(&p.pad, (&(struct extent){ 1, 0, 0 }), sizeof(p.in));
    assert_memory_equal(&p.stride, (&(struct extent){ 2, 1, 1 }), sizeof(p.in));

    p = survives(perf_key_parse, perf_key_write,
                 "3x32x14x15x8x1x2x3x16x2x0x0x1x1x1x2x1x1x1x0x2xNDHWCxFP32xF");
    assert_memory_equal(&p.in, (&(struct extent){ 8, 14, 15 }), sizeof(p.in));
    assert_memory_equal(&p.filter, (&(struct extent){ 3, 1, 2 }), sizeof(p.in));
    assert_int_equal(p.x_layout, LAYOUT_CHANNELS_LAST);
}

TEST(plain, every_type_of_the_real_files_is_known)
{
    static const char *const types[] = {
        [TYPE_FLOAT32] = "FP32",
        [TYPE_FLOAT16] = "FP16",
        [TYPE_BFLOAT16] = "BF16",
        [TYPE_INT8] = "INT8",
    };
    for (uint32_t type = 0; type <= TYPE_INT8; type++) {
        char key[PROBLEM_KEY_MAX];
        snprintf(key, sizeof(key), "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-%s-F", types[type]);
        assert_int_equal(survives(find_key_parse, find_key_write, key).type, type);
        snprintf(key, sizeof(key), "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWx%sxF",
                 types[type]);
        assert_int_equal(survives(perf_key_parse, perf_key_write, key).type, type);
    }
}

TEST(plain, mixed_layouts_stand_in_the_order_of_miopens_tensors)
{
    struct problem p = survives(find_key_parse, find_key_write,
                                "8-5-5-1x1-4-5-5-1-0x0-1x1-1x1-0-NHWC-NCHW-NCHW-FP32-F");
    assert_int_equal(p.x_layout, LAYOUT_CHANNELS_LAST);
    assert_int_equal(p.w_layout, LAYOUT_CHANNELS_FIRST);
    assert_int_equal(p.y_layout, LAYOUT_CHANNELS_FIRST);

    p = survives(find_key_parse, find_key_write,
                 "8-5-5-1x1-4-5-5-1-0x0-1x1-1x1-0-NHWC-NHWC-NCHW-FP32-B");
    assert_int_equal(p.x_layout, LAYOUT_CHANNELS_FIRST);
    assert_int_equal(p.w_layout, LAYOUT_CHANNELS_LAST);
    assert_int_equal(p.y_layout, LAYOUT_CHANNELS_LAST);
}

TEST(plain, a_problem_that_allows_tf32_has_keys_of_its_own)
{
    struct problem p =
        survives(find_key_parse, find_key_write, "8-5-5-1x1-4-5-5-1-0x0-1x1-1x1-0-NCHW-TF32-F");
    assert_int_equal(p.type, TYPE_FLOAT32);
    assert_int_equal(p.allow_tf32, 1);
    p = survives(perf_key_parse, perf_key_write,
                 "2x128x28x27x1x3x3x1x64x32x0x1x0x2x2x0x1x1x0x0x1xNHWCxTF32xB");
    assert_int_equal(p.allow_tf32, 1);
    p = survives(find_key_parse, find_key_write, "8-5-5-1x1-4-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F");
    assert_int_equal(p.allow_tf32, 0);
}

TEST(plain, a_problem_of_mixed_layouts_has_no_perf_key)
{
    char text[PROBLEM_KEY_MAX] = "left over";
    for (unsigned layouts = 1; layouts < 7; layouts++) {
        struct problem p = parsed(find_key_parse, "8-5-5-1x1-4-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F");
        p.x_layout = layouts & 1;
        p.w_layout = layouts >> 1 & 1;
        p.y_layout = layouts >> 2;
        assert_int_equal(perf_key_write(&p, text), 0);
        assert_string_equal(text, "");
    }
}

TEST(plain, a_strided_backward_perf_key_names_the_smallest_x)
{
    struct problem p = survives(perf_key_parse, perf_key_write,
                                "2x128x28x27x1x3x3x1x64x32x0x1x0x2x2x0x1x1x0x0x1xNHWCxFP16xB");
    assert_int_equal(p.c, 64);
    assert_int_equal(p.k, 128);
    /* 27 * 2 + 3: the smallest height that gives 28 rows; 58 does, too */
    assert_int_equal(p.in.h, 57);
    assert_int_equal(p.in.w, 53);    /* 26 * 2 + 3 - 2 */
    assert_int_equal(p.stride.d, 1); /* kiln's value; MIOpen has 0 */
    assert_int_equal(p.dilation.d, 1);

    /* The key has the size of dy, 3. The padding adds 2 to the size of x, so x has the smallest
     * possible size. */
    p = survives(perf_key_parse, perf_key_write,
                 "2x8x3x3x1x1x1x1x8x1x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xW");
    assert_int_equal(p.in.h, 1);
}

TEST(plain, an_invalid_find_key_is_reported_with_its_column)
{
    static const struct {
        const char *key, *says;
    } bad[] = {
        { "", "column 1" },
        { "x", "column 1" },
        { "64", "column 3" },
        { "64-56-56-3y3", "column 11" },
        { "64-56-56-3x", "column 12" },
        { "64--56-3x3", "column 4" },
        { "-64-56", "column 1" },
        { "+64-56", "found '+'" },
        { "064-56-56", "column 1" },
        { "64-4294967296-56", "column 4" },
        { "64-99999999999999999999999999999999-56", "column 4" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0", "column 32" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1-0-NCHW-FP32-F", "dilation_h" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-", "column 33" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32", "direction" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-NCHW-FP32-F", "one layout" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-X", "column 43" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-FB", "direction 'FB'" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F ", "0x20" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F=a:b", "found '='" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F_", "column 45" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F_g", "group_count" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F_g4_", "column 48" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F_g02", "group_count" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF", "column 2" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(find_key_parse, bad[i].key, KILN_INVALID, bad[i].says);
}

TEST(plain, an_invalid_perf_key_is_reported_with_its_column)
{
    static const struct {
        const char *key, *says;
    } bad[] = {
        { "", "column 1" },
        { "2x8x5x5", "column 8" },
        { "2x8x5x5x4294967296x", "column 9" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1", "group_count" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1x", "layout" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32", "direction" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32x", "direction ''" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xG", "direction 'G'" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxxF", "direction" },
        { "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF ", "0x20" },
        { "64-56-56-3x3-64-56-56-64-1x1-1x1-1x1-0-NCHW-FP32-F", "column 3" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(perf_key_parse, bad[i].key, KILN_INVALID, bad[i].says);
}

TEST(plain, unsupported_problem_keys_are_distinguished_from_garbage)
{
    static const struct {
        key_parse *reader;
        const char *key, *says;
    } bad[] = {
#define FIND(rest) find_key_parse, "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-" rest
#define PERF(rest) perf_key_parse, "2x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x" rest
        { FIND("1-NCHW-FP32-F"), "bias" },
        { FIND("0-NCHW-FP64-F"), "'FP64'" },
        { FIND("0-NCHW-INT8INT8FP32-F"), "'INT8INT8FP32'" },
        { FIND("0-CHWN-FP32-F"), "'CHWN'" },
        { FIND("0-NCDHW-FP32-F"), "'NCDHW'" },
        { FIND("0-NCHWc-NCHWc-NCHWc-FP32-F"), "'NCHWc'" },
        { FIND("0-NHWC-FP32-F"), "'NHWC' once" },
        { FIND("0-NCHW-NCHW-NCHW-FP32-F"), "'NCHW' three" },
        { FIND("0-NCHW-FP32-F_g1"), "_g1" },
        { FIND("0-NCHW-FP32-F_g3"), "group_count 3" },
        { FIND("0-NCHW-FP32-F_g0"), "group_count" },
        { FIND("0-NCHW-FP32-F_ciFP16"), "'_ciFP16'" },
        { FIND("0-NCHW-FP32-F_g2_cwFP8_coFP8"), "'_g2_cwFP8_coFP8'" },
        { find_key_parse, "8-5-5-1x1-8-5-6-1-0x0-1x1-1x1-0-NCHW-FP32-F", "1x5x5" },
        { find_key_parse, "8-5-6-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-W", "1x5x5" },
        { find_key_parse, "0-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F", "in_channels" },
        { find_key_parse, "8-5-5-1x1-8-5-5-1-0x0-0x1-1x1-0-NCHW-FP32-F", "conv_stride_h" },
        { find_key_parse, "8-5-5-7x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-B", "empty" },
        { find_key_parse, "4294967295-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F", "in_channels" },
        { PERF("1x1xNCHWxFP32xF"), "bias" },
        { PERF("0x1xNCHWxINT8x4xF"), "'INT8x4'" },
        { PERF("0x1xCNHWxFP32xF"), "'CNHW'" },
        { PERF("0x3xNCHWxFP32xF"), "group_count 3" },
        { perf_key_parse, "1x8x5x5x1x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF", "dimensions" },
        { perf_key_parse, "2x8x5x5x2x1x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF", "in_d 1" },
        { perf_key_parse, "3x8x5x5x4x1x1x1x8x1x0x0x0x1x1x1x1x1x1x0x1xNCHWxFP32xF", "'NCHW'" },
        { perf_key_parse, "2x8x2x3x1x1x1x1x8x1x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xW", "1x3x3" },
        { perf_key_parse, "2x8x0x3x1x1x1x1x8x1x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xB", "1x0x3" },
        { perf_key_parse, "2x8x5x5x1x0x1x1x8x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xB", "fil_h" },
        { perf_key_parse,
          "3x1x4294967295x4294967295x4294967295x4294967295x4294967295x4294967295x1x1x0x0x0x"
          "4294967295x4294967295x4294967295x4294967295x4294967295x4294967295x0x1xNCDHWxFP32xB",
          "in_d" },
#undef FIND
#undef PERF
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(bad[i].reader, bad[i].key, KILN_UNSUPPORTED, bad[i].says);
}

TEST(plain, a_megabyte_of_digits_and_a_nul_are_refused)
{
    size_t size = 1u << 20;
    uint8_t *digits = malloc(size);
    struct problem p;
    struct kiln_err err = KILN_ERR_INIT;
    assert_non_null(digits);
    memset(digits, '7', size);
    assert_int_equal(find_key_parse(bytes_of(digits, size), &p, &err), KILN_INVALID);
    assert_says(err.text, "1048576");
    assert_int_equal(perf_key_parse(bytes_of(digits, size), &p, &err), KILN_INVALID);
    assert_says(err.text, "1048576");
    assert_int_equal(find_key_parse(bytes_of(digits, 319), &p, &err), KILN_INVALID);
    assert_says(err.text, "column 1");
    unsigned count = 0;
    struct problem three[3];
    assert_int_equal(problem_named(bytes_of(digits, size), three, &count, &err), KILN_INVALID);
    assert_says(err.text, "MIOpenDriver");
    free(digits);

    static const char nul[] = "8-5\0-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F";
    assert_int_equal(find_key_parse(bytes_of(nul, sizeof(nul) - 1), &p, &err), KILN_INVALID);
    assert_says(err.text, "column 4");
    static const char end[] = "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-0-NCHW-FP32-F";
    assert_int_equal(find_key_parse(bytes_of(end, sizeof(end)), &p, &err), KILN_INVALID);
    assert_says(err.text, "column 44");
}

/* The key must be refused with a message, or be written exactly as it was read. */
static bool is_same_or_refused(key_parse *reader, key_write *writer, struct bytes key)
{
    char back[PROBLEM_KEY_MAX];
    struct problem p;
    struct kiln_err err = KILN_ERR_INIT;
    if (reader(key, &p, &err))
        return *err.text && strlen(err.text) < sizeof(err.text) - 1;
    return writer(&p, back) == key.size && memcmp(back, key.data, key.size) == 0;
}

static void damaged(key_parse *reader, key_write *writer, const char *key)
{
    char copy[PROBLEM_KEY_MAX];
    size_t size = strlen(key);
    for (size_t at = 0; at < size; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            memcpy(copy, key, size + 1);
            copy[at] = (char)byte;
            assert_true(is_same_or_refused(reader, writer, bytes_of(copy, size)));
        }
        assert_true(is_same_or_refused(reader, writer, bytes_of(key, at)));
    }
    (void)survives(reader, writer, key);
}

TEST(plain, a_damaged_key_never_parses_as_another_spelling)
{
    damaged(find_key_parse, find_key_write, "128-28-28-3x3-64-58-58-32-0x0-2x2-1x1-0-NCHW-FP32-B");
    damaged(find_key_parse, find_key_write,
            "32-8-14-15-3x1x2-16-4-14-14-2-1x0x0-2x1x1-1x1x1-0-NDHWC-NCDHW-NDHWC-FP16-F_g2");
    damaged(perf_key_parse, perf_key_write,
            "2x128x28x27x1x3x3x1x64x32x0x1x0x2x2x0x1x1x0x0x4xNHWCxFP16xB");
}

static uint32_t between(uint64_t *seed, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(random_next(seed) % (most - least + 1));
}

static struct extent random_extent(uint64_t *seed, uint32_t least, uint32_t most, uint32_t flat,
                                   uint32_t dims)
{
    struct extent e = { between(seed, least, most), between(seed, least, most),
                        between(seed, least, most) };
    if (dims == 2)
        e.d = flat;
    return e;
}

static struct problem random_valid(uint64_t *seed)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct problem p;
    do {
        uint32_t dims = between(seed, 2, 3);
        uint32_t groups = between(seed, 0, 1) ? 1 : between(seed, 1, 12);
        /* 0 and 1: the layout of all tensors; 2 and 3: each has a random one */
        uint32_t uniform = between(seed, 0, 3);
        p = (struct problem){
            .direction = between(seed, 0, 2),
            .spatial_dims = dims,
            .type = between(seed, 0, TYPE_INT8),
            .x_layout = uniform < 2 ? uniform : between(seed, 0, 1),
            .w_layout = uniform < 2 ? uniform : between(seed, 0, 1),
            .y_layout = uniform < 2 ? uniform : between(seed, 0, 1),
            .n = between(seed, 1, 600),
            .c = groups * between(seed, 1, 40),
            .k = groups * between(seed, 1, 40),
            .groups = groups,
            .in = random_extent(seed, 1, between(seed, 0, 1) ? 300 : 9, 1, dims),
            .filter = random_extent(seed, 1, 7, 1, dims),
            .pad = random_extent(seed, 0, 5, 0, dims),
            .stride = random_extent(seed, 1, 4, 1, dims),
            .dilation = random_extent(seed, 1, 3, 1, dims),
        };
        p.allow_tf32 = p.type == TYPE_FLOAT32 && between(seed, 0, 1);
    } while (problem_check(&p, &err));
    return p;
}

TEST(plain, random_problems_survive_their_find_keys)
{
    uint64_t seed = 20221;
    for (unsigned i = 0; i < 200000; i++) {
        char key[PROBLEM_KEY_MAX];
        struct kiln_err err = KILN_ERR_INIT;
        struct problem p = random_valid(&seed), back;
        size_t size = find_key_write(&p, key);
        assert_int_equal(size, strlen(key));
        must(find_key_parse(bytes_of(key, size), &back, &err), err);
        if (!problem_equal(&p, &back))
            fail_msg("another problem comes out of '%s'", key);
    }
}

TEST(plain, any_problem_has_the_perf_key_of_the_problem_that_the_key_names)
{
    uint64_t seed = 523;
    unsigned exact = 0, smaller = 0, none = 0;
    for (unsigned i = 0; i < 200000; i++) {
        char key[PROBLEM_KEY_MAX], again[PROBLEM_KEY_MAX];
        struct kiln_err err = KILN_ERR_INIT;
        struct problem p = random_valid(&seed), back;
        size_t size = perf_key_write(&p, key);
        if (size == 0) {
            none++;
            continue;
        }
        must(perf_key_parse(bytes_of(key, size), &back, &err), err);
        must(problem_check(&back, &err), err);
        perf_key_write(&back, again);
        assert_string_equal(again, key);
        if (problem_equal(&p, &back)) {
            exact++;
            continue;
        }
        smaller++; /* for backward directions, x may be smaller */
        assert_int_not_equal(p.direction, DIRECTION_FORWARD);
        assert_true(back.in.d <= p.in.d && back.in.h <= p.in.h && back.in.w <= p.in.w);
        back.in = p.in;
        assert_true(problem_equal(&p, &back));
    }
    assert_true(exact > 50000 && smaller > 20000 && none > 20000);
}

TEST(plain, keys_with_the_largest_numbers_fit)
{
    char key[PROBLEM_KEY_MAX];
    struct problem p = { .spatial_dims = 3, .direction = 1 };
    uint32_t *numbers = (uint32_t *)&p;
    for (size_t i = offsetof(struct problem, n) / 4; i < sizeof(p) / 4; i++)
        numbers[i] = UINT32_MAX;
    p.x_layout = p.w_layout = p.y_layout = LAYOUT_CHANNELS_LAST;
    assert_true(find_key_write(&p, key) < sizeof(key));
    assert_true(perf_key_write(&p, key) < sizeof(key));
}

static unsigned named(const char *text, struct problem problems[3])
{
    unsigned count = 0;
    struct kiln_err err = KILN_ERR_INIT;
    must(problem_named(bytes_of_text(text), problems, &count, &err), err);
    return count;
}

TEST(plain, a_problem_can_be_stated_by_key_or_command_line)
{
    struct problem find[3], perf[3], line[3];
    assert_int_equal(named(" 64-56-56-3x3-32-56-56-8-1x1-1x1-1x1-0-NCHW-FP32-F\n", find), 1);
    assert_int_equal(named("2x64x56x56x1x3x3x1x32x8x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF", perf), 1);
    assert_int_equal(named("./bin/MIOpenDriver conv -n 8 -c 64 -H 56 -W 56 -k 32 -y 3 -x 3 -p 1 "
                           "-q 1 -F 1 -t 1",
                           line),
                     1);
    assert_true(problem_equal(&find[0], &perf[0]));
    assert_true(problem_equal(&find[0], &line[0]));
}

TEST(plain, a_driver_line_names_a_problem_for_each_direction)
{
    struct problem p[3];
    assert_int_equal(named("conv", p), 3);
    assert_int_equal(named("7up/MIOpenDriver convint8 -F 5", p), 2);
    assert_int_equal(p[0].direction, DIRECTION_FORWARD);
    assert_int_equal(p[1].direction, DIRECTION_BACKWARD_WEIGHTS);
    assert_int_equal(p[1].type, TYPE_INT8);
}

TEST(plain, a_text_without_a_problem_is_refused_with_a_hint)
{
    static const struct {
        const char *text;
        enum kiln_code code;
        const char *says;
    } bad[] = {
        { "", KILN_INVALID, "MIOpenDriver" },
        { " \n", KILN_INVALID, "MIOpenDriver" },
        { "resnet50", KILN_INVALID, "'resnet50'" },
        { "64", KILN_INVALID, "'64'" },
        { "# conv", KILN_INVALID, "MIOpenDriver" },
        { "conv -n x", KILN_INVALID, "--batchsize" },
        { "64-56-56", KILN_INVALID, "column 9" },
        { "2x64x", KILN_INVALID, "column 6" },
        { "8-5-5-1x1-8-5-5-1-0x0-1x1-1x1-1-NCHW-FP32-F", KILN_UNSUPPORTED, "bias" },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct problem p[3];
        unsigned count = 9;
        struct kiln_err err = KILN_ERR_INIT;
        assert_int_equal(problem_named(bytes_of_text(bad[i].text), p, &count, &err), bad[i].code);
        assert_says(err.text, bad[i].says);
        assert_int_equal(count, 9);
    }
}
