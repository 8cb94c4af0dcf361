/* SPDX-License-Identifier: MIT */
#include "engine/miopen/problem_key.h"

#include "common/miopen/driver_line.h"

#include <string.h>

/* The tensors in the order of a key. In the forward direction, |in| is x and |out| is y. In the
 * other directions, |in| is dy and |out| is x. */
struct sides {
    uint32_t in_channels, out_channels;
    uint32_t in_layout, out_layout;
    struct extent in, out;
};

static struct sides sides_of(const struct problem *p)
{
    struct extent y = problem_output(p);
    if (p->direction == DIRECTION_FORWARD)
        return (struct sides){ p->c, p->k, p->x_layout, p->y_layout, p->in, y };
    return (struct sides){ p->k, p->c, p->y_layout, p->x_layout, y, p->in };
}

static char *put_number(char *at, uint32_t value)
{
    if (value < 10) {
        *at = (char)('0' + value);
        return at + 1;
    }
    size_t digits = 2;
    for (uint32_t rest = value / 100; rest; rest /= 10)
        digits++;
    for (size_t i = digits; i-- > 0; value /= 10)
        at[i] = (char)('0' + value % 10);
    return at + digits;
}

static char *put_text(char *at, const char *word)
{
    while (*word)
        *at++ = *word++;
    return at;
}

static char *put_type(char *at, const struct problem *p)
{
    static const char names[][5] = {
        [TYPE_FLOAT32] = "FP32",
        [TYPE_FLOAT16] = "FP16",
        [TYPE_BFLOAT16] = "BF16",
        [TYPE_INT8] = "INT8",
    };
    return put_text(at, p->allow_tf32 ? "TF32" : names[p->type & 3]);
}

static char *put_layout(char *at, uint32_t layout, const struct problem *p)
{
    return put_text(at, layout_name((enum layout)layout, p->spatial_dims));
}

static char *put_extent(char *at, struct extent e, char between, char after,
                        const struct problem *p)
{
    if (p->spatial_dims == 3) {
        at = put_number(at, e.d);
        *at++ = between;
    }
    at = put_number(at, e.h);
    *at++ = between;
    at = put_number(at, e.w);
    *at++ = after;
    return at;
}

static char *put_layouts(char *at, const struct sides *s, const struct problem *p)
{
    at = put_layout(at, s->in_layout, p);
    *at++ = '-';
    if (s->in_layout == LAYOUT_CHANNELS_FIRST && p->w_layout == LAYOUT_CHANNELS_FIRST &&
        s->out_layout == LAYOUT_CHANNELS_FIRST)
        return at;
    at = put_layout(at, p->w_layout, p);
    *at++ = '-';
    at = put_layout(at, s->out_layout, p);
    *at++ = '-';
    return at;
}

size_t find_key_write(const struct problem *p, char text[PROBLEM_KEY_MAX])
{
    struct sides s = sides_of(p);
    char *at = put_number(text, s.in_channels);
    *at++ = '-';
    at = put_extent(at, s.in, '-', '-', p);
    at = put_extent(at, p->filter, 'x', '-', p);
    at = put_number(at, s.out_channels);
    *at++ = '-';
    at = put_extent(at, s.out, '-', '-', p);
    at = put_number(at, p->n);
    *at++ = '-';
    at = put_extent(at, p->pad, 'x', '-', p);
    at = put_extent(at, p->stride, 'x', '-', p);
    at = put_extent(at, p->dilation, 'x', '-', p);
    at = put_text(at, "0-");
    at = put_layouts(at, &s, p);
    at = put_type(at, p);
    *at++ = '-';
    at = put_text(at, direction_name((enum direction)p->direction));
    if (p->groups != 1) {
        at = put_text(at, "_g");
        at = put_number(at, p->groups);
    }
    *at = '\0';
    return (size_t)(at - text);
}

static char *put_column(char *at, uint32_t value)
{
    at = put_number(at, value);
    *at++ = 'x';
    return at;
}

/* Writes h, w and d in the order of PerfDb's columns. A 2-D problem gets the depth |flat|. */
static char *put_columns(char *at, struct extent e, uint32_t flat, const struct problem *p)
{
    at = put_column(at, e.h);
    at = put_column(at, e.w);
    return put_column(at, p->spatial_dims == 3 ? e.d : flat);
}

size_t perf_key_write(const struct problem *p, char text[PROBLEM_KEY_MAX])
{
    *text = '\0';
    if (p->x_layout != p->w_layout || p->x_layout != p->y_layout)
        return 0;
    struct sides s = sides_of(p);
    char *at = put_column(text, p->spatial_dims);
    at = put_column(at, s.in_channels);
    at = put_columns(at, s.in, 1, p);
    at = put_columns(at, p->filter, 1, p);
    at = put_column(at, s.out_channels);
    at = put_column(at, p->n);
    at = put_columns(at, p->pad, 0, p);
    at = put_columns(at, p->stride, 0, p);
    at = put_columns(at, p->dilation, 0, p);
    at = put_column(at, 0); /* bias */
    at = put_column(at, p->groups);
    at = put_layout(at, s.in_layout, p);
    *at++ = 'x';
    at = put_type(at, p);
    *at++ = 'x';
    at = put_text(at, direction_name((enum direction)p->direction));
    *at = '\0';
    return (size_t)(at - text);
}

bool problem_key_has_tf32(struct bytes key)
{
    return memmem(key.data, key.size, "TF32", 4) != NULL;
}

static bool is_blank(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

static struct bytes trim_blanks(struct bytes text)
{
    while (text.size && is_blank(text.data[text.size - 1]))
        text.size--;
    while (text.size && is_blank(*text.data)) {
        text.data++;
        text.size--;
    }
    return text;
}

/* Returns the byte after the first number of a key: '-' for FindDb, 'x' for PerfDb, 0 if the text
 * is not a key. */
static char key_separator(struct bytes text)
{
    size_t digits = 0;
    for (size_t i = 0; i < text.size; i++)
        if (is_blank(text.data[i]))
            return 0;
    while (digits < text.size && text.data[digits] >= '0' && text.data[digits] <= '9')
        digits++;
    if (digits == 0 || digits == text.size)
        return 0;
    char next = (char)text.data[digits];
    return next == '-' || next == 'x' ? next : '\0';
}

static enum kiln_code parse_driver_command(struct bytes text, struct problem ret_problems[3],
                                           unsigned *ret_count, struct kiln_err *err)
{
    struct driver_line line;
    enum kiln_code rc = text.size && memmem(text.data, text.size, "conv", 4)
                            ? driver_line_parse(text, &line, err)
                            : KILN_NOT_FOUND;
    if (rc == KILN_NOT_FOUND)
        return kiln_fail(
            err, KILN_INVALID,
            "'%.*s' does not name a problem: give a FindDb key (64-56-56-3x3-...), a PerfDb "
            "key (2x64x56x...) or a MIOpenDriver command line (conv -n 64 ...)",
            (int)(text.size < 60 ? text.size : 60), (const char *)text.data);
    if (rc)
        return rc;
    unsigned count = 0;
    while (count < 3 && driver_line_problem(&line, count, &ret_problems[count]))
        count++;
    *ret_count = count;
    return KILN_OK;
}

enum kiln_code problem_named(struct bytes text, struct problem ret_problems[3], unsigned *ret_count,
                             struct kiln_err *err)
{
    text = trim_blanks(text);
    char separator = key_separator(text);
    if (!separator)
        return parse_driver_command(text, ret_problems, ret_count, err);
    enum kiln_code rc = separator == '-' ? find_key_parse(text, ret_problems, err)
                                         : perf_key_parse(text, ret_problems, err);
    if (!rc)
        *ret_count = 1;
    return rc;
}
