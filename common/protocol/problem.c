/* SPDX-License-Identifier: MIT */
#include "common/protocol/problem.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

static uint32_t output_of(uint32_t in, uint32_t filter, uint32_t pad, uint32_t stride,
                          uint32_t dilation)
{
    uint64_t padded = (uint64_t)in + 2 * (uint64_t)pad;
    uint64_t span = (uint64_t)dilation * (filter - 1) + 1;
    if (span > padded)
        return 0;
    return (uint32_t)(padded - span) / stride + 1;
}

struct extent problem_output(const struct problem *p)
{
    return (struct extent){
        .d = output_of(p->in.d, p->filter.d, p->pad.d, p->stride.d, p->dilation.d),
        .h = output_of(p->in.h, p->filter.h, p->pad.h, p->stride.h, p->dilation.h),
        .w = output_of(p->in.w, p->filter.w, p->pad.w, p->stride.w, p->dilation.w),
    };
}

struct bound {
    const char *name;
    size_t at;
    uint32_t least, most;
};

/* Maximum sizes: far above any real size, but small enough that the products below fit into 64
 * bits. */
#define DIMENSION_MAX (1u << 24)
#define SMALL_MAX (1u << 16)
#define BOUND(name, field, least, most)                    \
    {                                                      \
        name, offsetof(struct problem, field), least, most \
    }

static const struct bound bounds[] = {
    BOUND("direction", direction, 0, DIRECTION_BACKWARD_WEIGHTS),
    BOUND("spatial_dim", spatial_dims, 2, 3),
    BOUND("data type", type, 0, TYPE_INT8),
    BOUND("in_layout", x_layout, 0, LAYOUT_CHANNELS_LAST),
    BOUND("fil_layout", w_layout, 0, LAYOUT_CHANNELS_LAST),
    BOUND("out_layout", y_layout, 0, LAYOUT_CHANNELS_LAST),
    BOUND("batchsize", n, 1, DIMENSION_MAX),
    BOUND("in_channels", c, 1, DIMENSION_MAX),
    BOUND("out_channels", k, 1, DIMENSION_MAX),
    BOUND("group_count", groups, 1, DIMENSION_MAX),
    BOUND("in_d", in.d, 1, DIMENSION_MAX),
    BOUND("in_h", in.h, 1, DIMENSION_MAX),
    BOUND("in_w", in.w, 1, DIMENSION_MAX),
    BOUND("fil_d", filter.d, 1, SMALL_MAX),
    BOUND("fil_h", filter.h, 1, SMALL_MAX),
    BOUND("fil_w", filter.w, 1, SMALL_MAX),
    BOUND("pad_d", pad.d, 0, SMALL_MAX),
    BOUND("pad_h", pad.h, 0, SMALL_MAX),
    BOUND("pad_w", pad.w, 0, SMALL_MAX),
    BOUND("conv_stride_d", stride.d, 1, SMALL_MAX),
    BOUND("conv_stride_h", stride.h, 1, SMALL_MAX),
    BOUND("conv_stride_w", stride.w, 1, SMALL_MAX),
    BOUND("dilation_d", dilation.d, 1, SMALL_MAX),
    BOUND("dilation_h", dilation.h, 1, SMALL_MAX),
    BOUND("dilation_w", dilation.w, 1, SMALL_MAX),
    BOUND("allow_tf32", allow_tf32, 0, 1),
};

static const struct bound flat_bounds[] = {
    BOUND("in_d of a 2-D problem", in.d, 1, 1),
    BOUND("fil_d of a 2-D problem", filter.d, 1, 1),
    BOUND("pad_d of a 2-D problem", pad.d, 0, 0),
    BOUND("conv_stride_d of a 2-D problem", stride.d, 1, 1),
    BOUND("dilation_d of a 2-D problem", dilation.d, 1, 1),
};

static enum kiln_code refuse_number(const struct bound *b, uint32_t value, struct kiln_err *err)
{
    return kiln_fail(err, KILN_INVALID, "'%s' is %u: give %u to %u", b->name, (unsigned)value,
                     (unsigned)b->least, (unsigned)b->most);
}

static enum kiln_code check_bounds(const struct problem *p, const struct bound *first, size_t count,
                                   struct kiln_err *err)
{
    for (const struct bound *b = first; b < first + count; b++) {
        uint32_t value = *(const uint32_t *)(const void *)((const char *)p + b->at);
        if (value < b->least || value > b->most)
            return refuse_number(b, value, err);
    }
    return KILN_OK;
}

static enum kiln_code check_numbers(const struct problem *p, struct kiln_err *err)
{
    enum kiln_code rc = check_bounds(p, bounds, sizeof(bounds) / sizeof(bounds[0]), err);
    if (rc || p->spatial_dims == 3)
        return rc;
    return check_bounds(p, flat_bounds, sizeof(flat_bounds) / sizeof(flat_bounds[0]), err);
}

static uint64_t product(const uint64_t factors[5])
{
    uint64_t all = 1;
    for (size_t i = 0; i < 5; i++) {
        if (__builtin_mul_overflow(all, factors[i], &all))
            return UINT64_MAX;
    }
    return all;
}

uint64_t problem_x_elements(const struct problem *p)
{
    return product((const uint64_t[5]){ p->n, p->c, p->in.d, p->in.h, p->in.w });
}

uint64_t problem_w_elements(const struct problem *p)
{
    return product(
        (const uint64_t[5]){ p->k, p->c / p->groups, p->filter.d, p->filter.h, p->filter.w });
}

static uint64_t y_elements(const struct problem *p, struct extent out)
{
    return product((const uint64_t[5]){ p->n, p->k, out.d, out.h, out.w });
}

uint64_t problem_y_elements(const struct problem *p) { return y_elements(p, problem_output(p)); }

static enum kiln_code check_tensor(const char *name, uint64_t elements, struct kiln_err *err)
{
    if (elements >= 1u << 31)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "tensor '%s' has %llu elements; the maximum is 2147483647", name,
                         (unsigned long long)elements);
    return KILN_OK;
}

enum kiln_code problem_check(const struct problem *p, struct kiln_err *err)
{
    enum kiln_code rc = check_numbers(p, err);
    if (rc)
        return rc;
    if (p->c % p->groups || p->k % p->groups)
        return kiln_fail(err, KILN_INVALID,
                         "group_count %u does not divide in_channels %u and out_channels %u: give "
                         "a common divisor",
                         (unsigned)p->groups, (unsigned)p->c, (unsigned)p->k);
    if (p->allow_tf32 && p->type != TYPE_FLOAT32)
        return kiln_fail(err, KILN_INVALID, "allow_tf32 is 1, but the data type is %s, not fp32",
                         data_type_name((enum data_type)p->type));
    struct extent out = problem_output(p);
    if (out.d == 0 || out.h == 0 || out.w == 0)
        return kiln_fail(err, KILN_INVALID,
                         "the output is empty (%ux%ux%u): the dilated filter is larger than the "
                         "padded input: enlarge the padding, or reduce the filter or its dilation",
                         (unsigned)out.d, (unsigned)out.h, (unsigned)out.w);
    rc = check_tensor("x", problem_x_elements(p), err);
    if (!rc)
        rc = check_tensor("w", problem_w_elements(p), err);
    if (!rc)
        rc = check_tensor("y", y_elements(p, out), err);
    return rc;
}

double problem_flops(const struct problem *p)
{
    return 2.0 * (double)problem_y_elements(p) * (p->c / p->groups) * p->filter.d * p->filter.h *
           p->filter.w;
}

size_t data_type_size(enum data_type type)
{
    switch (type) {
    case TYPE_FLOAT32: return 4;
    case TYPE_INT8: return 1;
    default: return 2;
    }
}

const char *data_type_name(enum data_type type)
{
    static const char *const names[] = { "fp32", "fp16", "bf16", "int8" };
    return (size_t)type < 4 ? names[type] : "?";
}

const char *direction_name(enum direction direction)
{
    static const char *const names[] = { "F", "B", "W" };
    return (size_t)direction < 3 ? names[direction] : "?";
}

const char *layout_name(enum layout layout, uint32_t spatial_dims)
{
    if (spatial_dims == 3)
        return layout == LAYOUT_CHANNELS_LAST ? "NDHWC" : "NCDHW";
    return layout == LAYOUT_CHANNELS_LAST ? "NHWC" : "NCHW";
}

bool problem_equal(const struct problem *a, const struct problem *b)
{
    /* The struct is 26 u32 without padding, as asserted below. */
    return memcmp(a, b, sizeof(*a)) == 0;
}

_Static_assert(sizeof(struct problem) == PROBLEM_WIRE_SIZE, "a problem is its 26 wire numbers");

static size_t put_sizes(const struct problem *p, char *text, size_t size)
{
    static const char *const programs[] = { "conv", "convfp16", "convbfp16", "convint8" };
    int at = snprintf(text, size, "%s -n %u -c %u -H %u -W %u -k %u -y %u -x %u",
                      p->type < 4 ? programs[p->type] : "conv", (unsigned)p->n, (unsigned)p->c,
                      (unsigned)p->in.h, (unsigned)p->in.w, (unsigned)p->k, (unsigned)p->filter.h,
                      (unsigned)p->filter.w);
    at += snprintf(text + at, size - (size_t)at,
                   " -p %u -q %u -u %u -v %u -l %u -j %u -m conv -g %u", (unsigned)p->pad.h,
                   (unsigned)p->pad.w, (unsigned)p->stride.h, (unsigned)p->stride.w,
                   (unsigned)p->dilation.h, (unsigned)p->dilation.w, (unsigned)p->groups);
    return (size_t)at;
}

static size_t put_depth(const struct problem *p, char *text, size_t size)
{
    if (p->spatial_dims != 3)
        return 0;
    return (size_t)snprintf(text, size,
                            " --spatial_dim 3 --in_d %u --fil_d %u --pad_d %u --conv_stride_d %u "
                            "--dilation_d %u",
                            (unsigned)p->in.d, (unsigned)p->filter.d, (unsigned)p->pad.d,
                            (unsigned)p->stride.d, (unsigned)p->dilation.d);
}

static size_t put_layouts(const struct problem *p, char *text, size_t size)
{
    if (p->x_layout == LAYOUT_CHANNELS_FIRST && p->w_layout == LAYOUT_CHANNELS_FIRST &&
        p->y_layout == LAYOUT_CHANNELS_FIRST)
        return 0;
    return (size_t)snprintf(text, size, " --in_layout %s --fil_layout %s --out_layout %s",
                            layout_name(p->x_layout, p->spatial_dims),
                            layout_name(p->w_layout, p->spatial_dims),
                            layout_name(p->y_layout, p->spatial_dims));
}

void problem_to_driver(const struct problem *p, char *text, size_t size)
{
    char line[768]; /* 26 numbers of at most 10 digits, with their flags, take at most 640 bytes */
    size_t at = put_sizes(p, line, sizeof(line));
    at += put_depth(p, line + at, sizeof(line) - at);
    at += put_layouts(p, line + at, sizeof(line) - at);
    snprintf(line + at, sizeof(line) - at, "%s -F %u", p->allow_tf32 ? " --allow_tf32 1" : "",
             1u << (p->direction & 3));
    snprintf(text, size, "%s", line);
}

void problem_write(struct buffer *b, const struct problem *p)
{
    const uint32_t *numbers = (const uint32_t *)p;
    uint32_t wire[PROBLEM_WIRE_SIZE / 4];
    for (size_t i = 0; i < PROBLEM_WIRE_SIZE / 4; i++)
        wire[i] = htole32(numbers[i]);
    buffer_put(b, wire, sizeof(wire));
}

struct problem problem_read(struct reader *r)
{
    struct problem p = { 0 };
    uint32_t *numbers = (uint32_t *)&p;
    struct bytes wire = reader_take(r, PROBLEM_WIRE_SIZE);
    if (wire.size != PROBLEM_WIRE_SIZE)
        return p;
    memcpy(numbers, wire.data, PROBLEM_WIRE_SIZE);
    for (size_t i = 0; i < PROBLEM_WIRE_SIZE / 4; i++)
        numbers[i] = le32toh(numbers[i]);
    return p;
}
