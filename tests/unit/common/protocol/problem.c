/* SPDX-License-Identifier: MIT */
#include "common/protocol/problem.h"
#include "tests/support/test.h"

#include <string.h>

static struct problem resnet_first(void)
{
    return (struct problem){ .spatial_dims = 2,
                             .n = 64,
                             .c = 3,
                             .k = 64,
                             .groups = 1,
                             .in = { 1, 224, 224 },
                             .filter = { 1, 7, 7 },
                             .pad = { 0, 3, 3 },
                             .stride = { 1, 2, 2 },
                             .dilation = { 1, 1, 1 } };
}

TEST(plain, the_output_size_of_a_convolution_is_computed)
{
    struct problem p = resnet_first();
    struct extent out = problem_output(&p);
    assert_int_equal(out.d, 1);
    assert_int_equal(out.h, 112);
    assert_int_equal(out.w, 112);
    assert_int_equal(problem_x_elements(&p), 64 * 3 * 224 * 224);
    assert_int_equal(problem_w_elements(&p), 64 * 3 * 7 * 7);
    assert_int_equal(problem_y_elements(&p), 64 * 64 * 112 * 112);
    assert_true(problem_flops(&p) == 2.0 * 64 * 64 * 112 * 112 * 3 * 7 * 7);
}

TEST(plain, an_invalid_number_of_a_problem_is_named)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct problem p = resnet_first();
    must(problem_check(&p, &err), err);

    p.stride.h = 0;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
    assert_says(err.text, "conv_stride_h");

    p = resnet_first();
    p.groups = 2;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
    assert_says(err.text, "group_count 2");

    p = resnet_first();
    p.direction = 3;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
    assert_says(err.text, "direction");

    p = resnet_first();
    p.in.d = 2;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
    assert_says(err.text, "in_d");
}

TEST(plain, problems_with_an_empty_output_or_more_than_31_bits_of_elements_are_refused)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct problem p = resnet_first();
    p.filter.h = 400;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
    assert_says(err.text, "output");

    p = resnet_first();
    p.n = 1u << 20;
    assert_int_equal(problem_check(&p, &err), KILN_UNSUPPORTED);
    assert_says(err.text, "tensor 'x'");
}

TEST(plain, problem_sizes_that_would_overflow_are_refused)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct problem p = resnet_first();
    p.n = p.c = p.in.h = p.in.w = 1u << 24;
    assert_int_equal(problem_check(&p, &err), KILN_UNSUPPORTED);
    p.n = UINT32_MAX;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
}

TEST(plain, every_data_type_has_a_name_and_a_size)
{
    static const struct {
        const char *name;
        size_t size;
    } types[] = { [TYPE_FLOAT32] = { "fp32", 4 },
                  [TYPE_FLOAT16] = { "fp16", 2 },
                  [TYPE_BFLOAT16] = { "bf16", 2 },
                  [TYPE_INT8] = { "int8", 1 } };
    struct kiln_err err = KILN_ERR_INIT;
    for (uint32_t type = 0; type <= TYPE_INT8; type++) {
        struct problem p = resnet_first();
        p.type = type;
        must(problem_check(&p, &err), err);
        assert_string_equal(data_type_name((enum data_type)type), types[type].name);
        assert_int_equal(data_type_size((enum data_type)type), types[type].size);
    }
    struct problem p = resnet_first();
    p.type = TYPE_INT8 + 1;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
    assert_says(err.text, "data type");
    assert_string_equal(data_type_name((enum data_type)p.type), "?");
}

TEST(plain, a_problem_may_allow_tf32_only_in_fp32)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct problem p = resnet_first();
    p.type = TYPE_FLOAT32;
    p.allow_tf32 = 1;
    must(problem_check(&p, &err), err);
    p.type = TYPE_FLOAT16;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
    assert_says(err.text, "allow_tf32");
    p.type = TYPE_FLOAT32;
    p.allow_tf32 = 2;
    assert_int_equal(problem_check(&p, &err), KILN_INVALID);
}

TEST(plain, a_problem_is_read_back_from_its_wire_form)
{
    struct problem p = resnet_first();
    p.direction = DIRECTION_BACKWARD_WEIGHTS;
    p.type = TYPE_BFLOAT16;
    BUFFER_AUTO struct buffer b;
    buffer_init(&b, 200);
    problem_write(&b, &p);
    assert_int_equal(b.size, PROBLEM_WIRE_SIZE);
    struct reader r = reader_of(buffer_view(&b));
    struct problem back = problem_read(&r);
    assert_false(r.failed);
    assert_true(problem_equal(&p, &back));
}
