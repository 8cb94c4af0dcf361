/* SPDX-License-Identifier: MIT */
#include "engine/miopen/problem_key_parts.h"

static enum kiln_code refuse_value(struct kiln_err *err, const char *what, struct bytes value)
{
    return kiln_fail(err, KILN_UNSUPPORTED, "kiln does not support %s '%.*s'", what,
                     (int)(value.size < 40 ? value.size : 40), (const char *)value.data);
}

static enum kiln_code read_type(const struct key_parts *parts, struct problem *p,
                                struct kiln_err *err)
{
    static const struct {
        const char *name;
        enum data_type type;
        bool allow_tf32;
    } types[] = {
        { "FP32", TYPE_FLOAT32, false }, { "TF32", TYPE_FLOAT32, true },
        { "FP16", TYPE_FLOAT16, false }, { "BF16", TYPE_BFLOAT16, false },
        { "INT8", TYPE_INT8, false },
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (bytes_equal_text(parts->type, types[i].name)) {
            p->type = types[i].type;
            p->allow_tf32 = types[i].allow_tf32;
            return KILN_OK;
        }
    }
    return refuse_value(err, "the data type", parts->type);
}

static enum kiln_code read_layout(struct bytes name, uint32_t dims, uint32_t *ret_layout,
                                  struct kiln_err *err)
{
    for (uint32_t layout = LAYOUT_CHANNELS_FIRST; layout <= LAYOUT_CHANNELS_LAST; layout++) {
        if (bytes_equal_text(name, layout_name((enum layout)layout, dims))) {
            *ret_layout = layout;
            return KILN_OK;
        }
    }
    return refuse_value(err, dims == 3 ? "in three dimensions the layout" : "the layout", name);
}

static enum kiln_code read_layouts(const struct key_parts *parts, struct problem *p,
                                   struct kiln_err *err)
{
    uint32_t orders[LAYOUT_ORDERS];
    for (unsigned i = 0; i < LAYOUT_ORDERS; i++) {
        struct bytes name = parts->layouts[parts->layout_count == 1 ? 0 : i];
        enum kiln_code rc = read_layout(name, p->spatial_dims, &orders[i], err);
        if (rc)
            return rc;
    }
    bool forward = p->direction == DIRECTION_FORWARD;
    p->x_layout = forward ? orders[0] : orders[2];
    p->w_layout = orders[1];
    p->y_layout = forward ? orders[2] : orders[0];
    return KILN_OK;
}

/* Returns KILN_UNSUPPORTED unless the key has as many layouts as MIOpen writes: one if the layouts
 * of all three tensors are NCHW (NCDHW), otherwise three. */
static enum kiln_code check_layout_count(const struct key_parts *parts, const struct problem *p,
                                         struct kiln_err *err)
{
    bool all_first = p->x_layout == LAYOUT_CHANNELS_FIRST && p->w_layout == LAYOUT_CHANNELS_FIRST &&
                     p->y_layout == LAYOUT_CHANNELS_FIRST;
    if (all_first == (parts->layout_count == 1))
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED, "the key has the layout '%.*s' %s; MIOpen writes it %s",
                     (int)parts->layouts[0].size, (const char *)parts->layouts[0].data,
                     all_first ? "three times" : "once", all_first ? "once" : "three times");
}

static uint32_t read_direction(const struct key_parts *parts)
{
    switch (*parts->direction.data) {
    case 'F': return DIRECTION_FORWARD;
    case 'B': return DIRECTION_BACKWARD_DATA;
    default: return DIRECTION_BACKWARD_WEIGHTS;
    }
}

static enum kiln_code read_parts(const struct key_parts *parts, struct problem *p,
                                 struct kiln_err *err)
{
    bool forward = *parts->direction.data == 'F';
    if (parts->bias)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "kiln does not support a bias; this key has bias %u",
                         (unsigned)parts->bias);
    if (parts->spatial_dims != 2 && parts->spatial_dims != 3)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "kiln supports 2 or 3 spatial dimensions; this key has %u",
                         (unsigned)parts->spatial_dims);
    *p = (struct problem){
        .direction = read_direction(parts),
        .spatial_dims = parts->spatial_dims,
        .n = parts->n,
        .c = forward ? parts->in_channels : parts->out_channels,
        .k = forward ? parts->out_channels : parts->in_channels,
        .groups = parts->groups,
        .filter = parts->filter,
        .pad = parts->pad,
        .stride = parts->stride,
        .dilation = parts->dilation,
    };
    if (p->spatial_dims == 2) {
        p->filter.d = p->stride.d = p->dilation.d = 1;
        p->pad.d = 0;
    }
    enum kiln_code rc = read_type(parts, p, err);
    return rc ? rc : read_layouts(parts, p, err);
}

static enum kiln_code check_problem(const struct problem *p, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    return problem_check(p, &why)
               ? kiln_fail(err, KILN_UNSUPPORTED,
                           "kiln does not support the problem of this key: %s", why.text)
               : KILN_OK;
}

static enum kiln_code check_output(const struct problem *p, struct extent y, struct kiln_err *err)
{
    enum kiln_code rc = check_problem(p, err);
    if (rc)
        return rc;
    struct extent follows = problem_output(p);
    if (follows.d == y.d && follows.h == y.h && follows.w == y.w)
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "the key states an output of %ux%ux%u, but its other values give %ux%ux%u",
                     (unsigned)y.d, (unsigned)y.h, (unsigned)y.w, (unsigned)follows.d,
                     (unsigned)follows.h, (unsigned)follows.w);
}

enum kiln_code find_key_parse(struct bytes text, struct problem *ret_problem, struct kiln_err *err)
{
    struct key_parts parts;
    struct problem p;
    enum kiln_code rc = find_key_split(text, &parts, err);
    if (!rc && parts.suffix.size)
        rc = refuse_value(err, "the suffix", parts.suffix);
    if (!rc && parts.one_group_stated)
        rc = kiln_fail(err, KILN_UNSUPPORTED,
                       "the key states _g1, but MIOpen omits the groups if there is only one");
    if (!rc)
        rc = read_parts(&parts, &p, err);
    if (!rc)
        rc = check_layout_count(&parts, &p, err);
    if (rc)
        return rc;
    if (p.spatial_dims == 2)
        parts.in.d = parts.out.d = 1;
    bool forward = p.direction == DIRECTION_FORWARD;
    p.in = forward ? parts.in : parts.out;
    rc = check_output(&p, forward ? parts.out : parts.in, err);
    if (!rc)
        *ret_problem = p;
    return rc;
}

/* Returns the smallest input size that gives the output size |y|, or 0 if it exceeds 32 bits. If no
 * input size gives |y|, the result is wrong, and the caller notices that when it checks the
 * output. */
static uint32_t smallest_input(uint32_t y, uint32_t filter, uint32_t pad, uint32_t stride,
                               uint32_t dilation)
{
    if (y == 0 || filter == 0)
        return 1;
    uint64_t padded = (uint64_t)dilation * (filter - 1) + 1;
    if (__builtin_add_overflow(padded, (uint64_t)stride * (y - 1), &padded))
        return 0;
    uint64_t pads = 2 * (uint64_t)pad;
    if (padded <= pads)
        return 1;
    return padded - pads <= UINT32_MAX ? (uint32_t)(padded - pads) : 0;
}

static enum kiln_code check_flat(const struct key_parts *parts, struct kiln_err *err)
{
    if (parts->spatial_dims != 2 ||
        (parts->in.d == 1 && parts->filter.d == 1 && parts->pad.d == 0 && parts->stride.d == 0 &&
         parts->dilation.d == 0))
        return KILN_OK;
    return kiln_fail(err, KILN_UNSUPPORTED,
                     "a 2-D key has in_d 1, fil_d 1, pad_d 0, conv_stride_d 0 and dilation_d 0; "
                     "this key has %u, %u, %u, %u and %u",
                     (unsigned)parts->in.d, (unsigned)parts->filter.d, (unsigned)parts->pad.d,
                     (unsigned)parts->stride.d, (unsigned)parts->dilation.d);
}

static enum kiln_code complete_perf(const struct key_parts *parts, struct problem *p,
                                    struct kiln_err *err)
{
    p->in = parts->in;
    if (p->direction == DIRECTION_FORWARD)
        return check_problem(p, err);
    p->in.d = smallest_input(parts->in.d, p->filter.d, p->pad.d, p->stride.d, p->dilation.d);
    p->in.h = smallest_input(parts->in.h, p->filter.h, p->pad.h, p->stride.h, p->dilation.h);
    p->in.w = smallest_input(parts->in.w, p->filter.w, p->pad.w, p->stride.w, p->dilation.w);
    return check_output(p, parts->in, err);
}

enum kiln_code perf_key_parse(struct bytes text, struct problem *ret_problem, struct kiln_err *err)
{
    struct key_parts parts;
    struct problem p;
    enum kiln_code rc = perf_key_split(text, &parts, err);
    if (!rc)
        rc = check_flat(&parts, err);
    if (!rc)
        rc = read_parts(&parts, &p, err);
    if (!rc)
        rc = complete_perf(&parts, &p, err);
    if (!rc)
        *ret_problem = p;
    return rc;
}
